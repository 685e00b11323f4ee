"""A run as Markdown, for a pull request."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from skills_agent.evals.cases.summary import NO_SKILL, Summary
from skills_agent.evals.report.wording import (
    answers,
    change,
    failures,
    p_text,
    percent,
    reason,
    share,
    spread,
)
from skills_agent.skills.text import count, one_line
from skills_agent.skills.visible import visible_line

LONGEST: Final = 60_000
"""Characters: GitHub takes 65,536 in a comment."""
_MOST: Final = 50
_CUT: Final = "\n\nThe rest is left out: it is too long for a comment.\n"
_END: Final = "\n\n</details>"
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~&])")
_LINKED: Final = re.compile(r"\\?[@#]|\\?:(?=//)|\bwww(?=\\?\.)")
_TEXT: Final = 400
_REASON: Final = 200
_MARKS: Final = {"better": "✅ ", "passed": "✅ ", "worse": "❌ ", "failed": "❌ ", "open": ""}


def markdown(summary: Summary) -> str:
    """Return the answer, the figures, and what went wrong; nothing in it is markup of a case or a model."""
    text = "\n".join(_lines(summary)) + "\n"
    if len(text) <= LONGEST:
        return text
    kept = text[: LONGEST - len(_CUT) - len(_END)].rpartition("\n")[0]
    return kept + (_END if kept.count("<details>") > kept.count("</details>") else "") + _CUT


def _lines(summary: Summary) -> Iterator[str]:
    first, *others = answers(summary)
    yield f"### {_MARKS[first.tone]}{escaped(first.sentence)}"
    yield f"\n{escaped(first.details)}"
    for each in others:
        yield f"\n**{_MARKS[each.tone]}{escaped(each.sentence)}** {escaped(each.details)}".rstrip()
    yield ""
    header = ("model", "arm", "cases", "passed", "calls", "tokens", "seconds", "USD")
    rows = [
        (
            each.model,
            each.arm,
            str(each.cases),
            share(each.passed),
            spread(each.calls),
            spread(each.tokens),
            spread(each.seconds),
            spread(each.usd) if each.usd else "not known",
        )
        for each in summary.arms
    ]
    yield from _table(header, rows)
    if summary.deltas:
        deltas = [
            (
                each.model,
                each.name,
                each.metric,
                each.verdict,
                change(each),
                f"{each.wins} / {each.losses} / {each.ties}",
                p_text(each.p) if each.p is not None else "",
            )
            for each in summary.deltas
        ]
        titles = ("model", "compared", "metric", "shows", "difference", "better / worse / same", "p")
        yield from _folded("What changed", _table(titles, deltas))
    for arm in summary.arms:
        if arm.choices is None or arm.arm != "with":
            continue
        yield f"\nWhich skill {escaped(arm.model)} chose: right for {escaped(share(arm.choices.accuracy))}.\n"
        skills = [(each.skill, share(each.precision), share(each.recall)) for each in arm.choices.skills]
        yield from _table(("skill", "precision", "recall"), skills)
        misses = [
            (
                each.request,
                ", ".join(each.expected) or NO_SKILL,
                ", ".join(each.chosen) or NO_SKILL,
                percent(each.rate),
            )
            for each in arm.choices.near_misses[:_MOST]
        ]
        if misses:
            yield from _folded(
                "Requests that went wrong", _table(("request", "expected", "chosen", "of its runs"), misses)
            )
    found = list(failures(summary))
    if found:
        faults = [
            (each.outcome, each.case, each.model, one_line(reason(each), _REASON)) for each in found[:_MOST]
        ]
        table = _table(("outcome", "case", "model", "why"), faults)
        yield from _folded(f"{count(len(found), 'run')} did not pass", table)
    for note in (*summary.notes, *summary.head.skipped):
        yield f"\n> {escaped(note)}"
    partial = summary.head.partial
    if partial and not any(partial in each for each in summary.notes):
        yield f"\n> This run is not whole: {escaped(partial)}."


def _folded(title: str, rows: Iterator[str]) -> Iterator[str]:
    yield f"\n<details><summary>{escaped(title)}</summary>\n"
    yield from rows
    yield "\n</details>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(map(escaped, row))} |"


def escaped(text: str) -> str:
    """Return untrusted text as one line that is no markup, mentions nobody and links nowhere."""
    plain = _SPECIAL.sub(r"\\\1", visible_line(one_line(text, _TEXT)))
    # GitHub makes links and mentions of finished text: no backslash is left in that.
    return _LINKED.sub("\\g<0>\u200b", plain)
