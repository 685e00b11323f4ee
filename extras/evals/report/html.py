"""A run as one page: whether the edit, or the skill, helped; then by how much, where, and why."""

from collections.abc import Iterator, Sequence
from typing import Final

from skills_agent.evals.cases.summary import Summary
from skills_agent.evals.pages.elements import Html, copied, element, joined
from skills_agent.evals.pages.page import page
from skills_agent.evals.report.case_list import case_list
from skills_agent.evals.report.case_story import DETAILS, Detail
from skills_agent.evals.report.figures import (
    answer_chart,
    arms_part,
    choices_parts,
    deltas_part,
)
from skills_agent.evals.report.wording import answers
from skills_agent.skills.text import count, cut, one_line

LARGEST: Final = 1_900_000
"""Bytes of a page; what is larger is made again with shorter excerpts."""
_DIGEST: Final = 12
_SKILLS: Final = 12
_COMMAND: Final = 1_000
_NOTE: Final = 400
_MOST_NOTES: Final = 40


def html_page(summary: Summary) -> str:
    """Return the page. Texts of cases, models and repositories are in it as texts, never as markup.

    It has excerpts as long as a page of LARGEST bytes holds; the JSON has all.
    """
    made = (_page(summary, detail) for detail in DETAILS)
    whole = next(made)
    while len(whole.encode()) > LARGEST and (shorter := next(made, None)) is not None:
        whole = shorter
    return whole


def _page(summary: Summary, detail: Detail) -> str:
    head = summary.head
    skills = sorted({case.skill for case in head.cases if case.skill})
    names = ", ".join(skills[:3]) + (f" and {len(skills) - 3} more" if len(skills) > 3 else "")
    title = f"Evals: {names or head.id}"
    return page(
        title,
        element("h1", title),
        _subtitle(summary),
        *_answers(summary),
        *_notes(summary, detail),
        _facts(summary, skills),
        arms_part(summary),
        *deltas_part(summary),
        *choices_parts(summary),
        *case_list(summary, detail),
    )


def _subtitle(summary: Summary) -> Html:
    head = summary.head
    times = f" \u00d7 {count(head.repeat, 'run')}" if head.repeat > 1 else ""
    parts = [", ".join(head.models), f"{count(len(head.cases), 'case')}{times}", _when(head.at)]
    return element("p", " \u00b7 ".join(filter(None, parts)), class_="soft")


def _facts(summary: Summary, skills: Sequence[str]) -> Html:
    head = summary.head
    digests = [
        joined(name, " ", element("code", head.skills[name][:_DIGEST]))
        for name in skills[:_SKILLS]
        if name in head.skills
    ]
    before = f"{summary.before.id}, {_when(summary.before.at)}" if summary.before else None
    facts: list[tuple[str, Html | str | None]] = [
        ("Run", f"{head.id}, by skills-agent {head.program}" if head.program else head.id),
        ("Before", before),
        ("Graded by", head.grader or None),
        ("Skills", joined(*_between(digests, ", ")) if digests else None),
        ("Seed", str(head.seed)),
        ("Command", copied(cut(head.command, _COMMAND)) if head.command else None),
    ]
    shown = [(name, value) for name, value in facts if value]
    return element(
        "dl", [joined(element("dt", name), element("dd", value)) for name, value in shown], class_="facts"
    )


def _when(at: str) -> str:
    return f"{at.replace('T', ' ')[:16]} UTC" if at else ""


def _between(parts: Sequence[Html], gap: str) -> Iterator[Html | str]:
    for place, part in enumerate(parts):
        if place:
            yield gap
        yield part


def _answers(summary: Summary) -> Iterator[Html]:
    """Yield the answers; the first of each model is large."""
    for place, each in enumerate(answers(summary)):
        size = "" if place < max(1, len(summary.head.models)) else " more"
        yield element(
            "div",
            element("div", element("p", each.sentence), element("p", each.details, class_="soft")),
            answer_chart(each.delta) if each.delta else None,
            class_=f"verdict {each.tone}{size}",
        )


def _notes(summary: Summary, detail: Detail) -> Iterator[Html]:
    partial = summary.head.partial
    said = list(summary.notes)
    if partial and not any(partial in each for each in said):
        said.insert(0, f"This run is not whole: {partial}.")
    said += summary.head.skipped
    if detail is not DETAILS[0]:
        said.append("Excerpts are shorter here, for the size of the page: eval --json has all.")
    if said:
        items = [element("li", one_line(each, _NOTE)) for each in said[:_MOST_NOTES]]
        if len(said) > _MOST_NOTES:
            items.append(element("li", f"and {len(said) - _MOST_NOTES} more: eval --json has all"))
        yield element("ul", items, class_="notes")
