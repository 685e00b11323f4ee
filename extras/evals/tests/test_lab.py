"""The selection lab: which skill a request goes to, requests that are drafted, and better descriptions."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.evals.cases.choosing import Choice, Labelled, WordChooser
from skills_agent.evals.cases.drafting import EVERYDAY, MANY, Written, draft
from skills_agent.evals.cases.improving import PieceProposer, improve, split

TOTALS = (
    "Sum the rows of a CSV file per group. Use when the user asks for totals, averages or missing values."
)
NOTES = "Write release notes from the commits of a git repository. Use when the user prepares a release."
WEATHER = "Tell the weather of a place. Use when the user asks about rain, wind or temperature."
OTHERS = {"release-notes": NOTES, "weather": WEATHER}
BODY = """
# Totals

Sum the columns of a CSV file, group by group: totals, averages, and counts of rows with missing values.

The file is CSV. The user says which amounts to add up, and by which column: region, product, month, customer.

## Group the rows by a column

Users say "what is the total per region" or "how many orders are missing an amount".
"""
FOR_IT = (
    "what is the total amount per region in orders.csv",
    "sum the sales column of this csv by month",
    "how many rows of the csv are missing an amount",
    "average order value per region from my csv export",
    "group the csv rows by product and give totals",
    "total per customer please, the file is sales.csv",
    "which column of the csv has missing values",
    "add up the amounts in the csv by group",
)
NOT_FOR_IT = (
    "write the release notes for version 2",
    "summarise the commits since the last release",
    "will it rain in Oslo tomorrow",
    "how strong is the wind on the coast",
    "what is the temperature in Rome",
    "prepare a release of the repository",
    "list the commits of last week",
    "tell me a joke",
)
REQUESTS = [Labelled(text, True, "t") for text in FOR_IT] + [
    Labelled(text, False, "t") for text in NOT_FOR_IT
]


def test_drafts_are_what_authors_say_that_users_say() -> None:
    skill = Written("totals", TOTALS, BODY)
    neighbours = [Written("release-notes", NOTES, ""), Written("weather", WEATHER, "")]
    drafts = draft(skill, neighbours)
    own = [each.text for each in drafts if each.wanted]
    assert {"what is the total per region", "totals", "Group the rows by a column"} & set(own) >= {
        "what is the total per region",
        "Group the rows by a column",
    }
    assert 0 < len(own) <= MANY
    others = [each for each in drafts if not each.wanted]
    assert {each.text for each in others} >= set(EVERYDAY)
    assert {each.origin for each in others} >= {"drafted from release-notes", "drafted from weather"}


def test_nothing_is_drafted_from_code() -> None:
    fences = '```python\nsay("Hello, welcome to us!")\n```\n\n  ~~~sh\n## Install the programs\n  ~~~\n'
    skill = Written("speech", "Speak.", f'{fences}\nUsers say "read this text aloud".\n\n## Save a voice\n')
    texts = {each.text for each in draft(skill, []) if each.wanted}
    assert texts == {"read this text aloud", "Save a voice"}


@given(st.text(), st.text())
def test_drafting_takes_any_text(description: str, instructions: str) -> None:
    drafts = draft(Written("a", description, instructions), [Written("b", instructions, description)])
    assert all(each.text.strip() for each in drafts)
    assert len({each.text.casefold() for each in drafts if each.wanted}) == sum(
        each.wanted for each in drafts
    )


@given(st.lists(st.tuples(st.text(), st.booleans()), unique=True), st.integers())
def test_a_split_keeps_every_request_once_and_both_labels_in_both_halves(
    pairs: list[tuple[str, bool]], seed: int
) -> None:
    requests = [Labelled(text, wanted, "") for text, wanted in pairs]
    parts = split(requests, seed)
    assert sorted([*parts.train, *parts.held_out]) == sorted(requests)
    assert parts == split(requests, seed)
    for wanted in (True, False):
        total = sum(each.wanted is wanted for each in requests)
        held = sum(each.wanted is wanted for each in parts.held_out)
        assert held == (max(1, int(total * 0.4)) if total >= 3 else 0)


def test_a_bad_description_is_mended_and_measured_on_requests_that_chose_nothing() -> None:
    skill = Written("table-helper", "Helps with files.", BODY)
    parts, chooser = split(REQUESTS, 42), WordChooser()
    found = improve(skill, OTHERS, parts, chooser, PieceProposer(skill, parts.train, chooser, OTHERS))
    assert found.held_out_before.balanced == 0.5
    assert found.held_out_after.balanced >= 0.8
    assert found.train_after.balanced >= 0.9
    assert len(found.after) <= 1024


class Recording:
    """A chooser that keeps what it was asked."""

    def __init__(self) -> None:
        self.words = WordChooser()
        self.asked: list[tuple[str, ...]] = []

    def choose(self, requests: Sequence[str], descriptions: Mapping[str, str]) -> list[Choice]:
        self.asked.append(tuple(requests))
        return self.words.choose(requests, descriptions)


def test_the_search_never_sees_a_held_out_request() -> None:
    skill = Written("table-helper", "Helps with files.", BODY)
    parts, chooser = split(REQUESTS, 7), Recording()
    improve(skill, OTHERS, parts, chooser, PieceProposer(skill, parts.train, chooser, OTHERS))
    held_out = {each.text for each in parts.held_out}
    seen = [bool(held_out.intersection(asked)) for asked in chooser.asked]
    assert seen == sorted(seen)
    assert sum(seen) == 2


@pytest.mark.parametrize("name", ["csv-report", "text-stats"])
def test_what_is_not_for_a_skill_is_said_with_the_name_of_the_one_it_is_for(name: str) -> None:
    greedy = Written("totals", f"{TOTALS} Also tells about rain, wind and temperature of a place.", BODY)
    others = {name: WEATHER, "release-notes": NOTES}
    parts, chooser = split(REQUESTS, 42), WordChooser()
    proposer = PieceProposer(greedy, parts.train, chooser, others)
    proposed = [
        *proposer.propose(
            greedy.description, [(Labelled("will it rain in Oslo tomorrow", False, "t"), "totals")], 0
        )
    ]
    if any(each.text == "will it rain in Oslo tomorrow" for each in parts.train):
        assert any(f"use `{name}`" in text for text in proposed)
