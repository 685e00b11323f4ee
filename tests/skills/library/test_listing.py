"""What of the catalog fits into a prompt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.library.listing import CatalogListing, fit, shortened
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.skill import SkillMetadata
from skills_agent.skills.sources import MemorySource
from skills_agent.skills.text import escape_markup


def skill(name: str, description: str) -> SkillMetadata:
    return SkillMetadata(name, description, "user", f"/{name}/SKILL.md", name, "0" * 64)


def cost(listing: CatalogListing) -> int:
    """Return the characters of the lines as a prompt shows them."""
    return sum(
        len(f"- {escape_markup(line.skill.name)}: {escape_markup(line.description or '')}\n")
        for line in listing.lines
    )


LONG = [
    skill(f"skill-{number}", "Does it with care. " * 20 + f"Use when {number} is asked for.")
    for number in range(10)
]


def test_all_descriptions_are_cut_to_one_length_and_say_when_to_use_the_skill() -> None:
    listing = fit(LONG, 10 * 140)
    texts = [line.description or "" for line in listing.lines]
    lengths = {len(text) for text in texts}
    assert (listing.omitted, listing.is_whole) == (0, False)
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) > 110
    assert all(text.startswith("Does it with") for text in texts)
    assert all(f"Use when {number} is asked for." in text for number, text in enumerate(texts))


def test_where_all_would_say_too_little_the_first_keep_a_description_and_the_rest_their_names() -> None:
    listing = fit(LONG, 10 * 13 + 3 * 80)
    assert [line.description is not None for line in listing.lines] == [True] * 3 + [False] * 7
    assert "Use when 0 is asked for." in (listing.lines[0].description or "")
    assert (listing.omitted, listing.is_whole) == (0, False)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Fills forms. " * 20 + "Use this skill when a form comes.", "Use this skill when a form comes."),
        ("Fills forms, slowly - " * 20 + "use it when a PDF comes.", "use it when a PDF comes."),
        ("Use the API of forms. " * 9 + "Trigger on 'a form'.", "Use the API of"),
        ("When the user wants a form. " + "Fills forms. " * 20, "When the user wants a form."),
        ("Makes posters. " * 12 + "TRIGGER on: a poster. Not for flyers.", "TRIGGER on: a poster."),
        ("Use when " + "the user asks for a form, " * 20, "Use when the user asks for a form, the user"),
    ],
)  # fmt: skip
def test_when_to_use_a_skill_is_the_last_that_its_description_loses(text: str, kept: str) -> None:
    short = shortened(text, 90)

    assert kept in short
    assert len(short) <= 90


@given(st.text(), st.integers(1, 300))
def test_a_shortened_text_is_no_longer_than_asked_for(text: str, length: int) -> None:
    assert len(shortened(text, length)) <= max(length, 1)
    assert shortened(text, max(len(text), 1)) == text


_SKILLS = st.lists(st.text(max_size=80), max_size=12).map(
    lambda texts: [skill(f"skill-{number}", text) for number, text in enumerate(texts)]
)


@given(_SKILLS, st.integers(-10, 1_500))
def test_a_listing_keeps_order_and_budget(skills: list[SkillMetadata], budget: int) -> None:
    listing = fit(skills, budget)

    shown = [line.skill.name for line in listing.lines]
    assert shown == sorted(shown)
    assert cost(listing) <= max(budget, 0)
    assert len(shown) + listing.omitted == listing.total == len(skills)
    texts = {each.name: " ".join(each.description.split()) for each in skills}
    assert listing.is_whole is ({line.skill.name: line.description for line in listing.lines} == texts)
    assert fit(skills, budget) == listing


@given(_SKILLS, st.integers(0, 1_500))
def test_more_budget_never_shows_fewer_skills(skills: list[SkillMetadata], budget: int) -> None:
    assert len(fit(skills, budget + 50).lines) >= len(fit(skills, budget).lines)


def written(name: str, more: str = "") -> dict[str, str | bytes]:
    return {"SKILL.md": f"---\ndescription: Does {name}. {'And so on. ' * 20}\n{more}---\n"}


def test_skills_of_a_strong_source_are_the_last_to_lose_their_descriptions() -> None:
    weak = MemorySource({name: written(name) for name in ("a", "d")}, "weak")
    strong = MemorySource({name: written(name) for name in ("b", "c")}, "strong")
    catalog = Registry([weak, strong]).refresh()

    lines = catalog.listing(200).lines
    assert [(line.skill.name, line.description is not None) for line in lines] == [
        ("a", False), ("b", True), ("c", True), ("d", False)
    ]  # fmt: skip
