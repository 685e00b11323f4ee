"""A run as text for a terminal."""

from collections.abc import Iterator, Sequence

from skills_agent.graph.evals.report.wording import (
    delta_text,
    failures,
    headline,
    percent,
    reason,
    share,
    spread,
)
from skills_agent.skills.evals.summary import NO_SKILL, ArmSummary, Summary
from skills_agent.skills.text import count, one_line

MOST = 20
"""Failed cases and near misses that are listed; the page and the JSON have all."""
_REQUEST = 70


def lines(summary: Summary) -> Iterator[str]:
    """Yield the lines: the answer first, then figures, what went wrong, and what was left out.

    Texts of cases and models are in them as they are: print them as untrusted text.
    """
    yield headline(summary)
    yield ""
    header = ("model", "arm", "cases", "passed", "calls", "tokens", "seconds", "USD")
    yield from columns([header, *(_arm_row(arm) for arm in summary.arms)])
    if summary.deltas:
        yield ""
        yield from columns(
            [(each.model, each.name, each.metric, delta_text(each)) for each in summary.deltas]
        )
    if summary.visible is not None:
        yield f"So many cases would show a difference of {100 * summary.visible:.0f} points or more."
    for arm in summary.arms:
        yield from _choices(arm)
    yield from _failures(summary)
    flaky = [row.case for row in summary.cases if row.flaky]
    if flaky:
        yield f"\nFlaky: {_listed(flaky)}"
    for note in (*summary.notes, *summary.head.skipped):
        yield f"note: {one_line(note)}"
    if summary.head.partial:
        yield f"This run is not whole: {summary.head.partial}."


def _arm_row(arm: ArmSummary) -> tuple[str, ...]:
    cases = f"{arm.cases} x {arm.runs // arm.cases}" if arm.cases and arm.runs > arm.cases else str(arm.cases)
    usd = spread(arm.usd) if arm.usd else "?"
    return (
        arm.model,
        arm.arm,
        cases,
        share(arm.passed),
        spread(arm.calls),
        spread(arm.tokens),
        spread(arm.seconds),
        usd,
    )


def _choices(arm: ArmSummary) -> Iterator[str]:
    choices = arm.choices
    if choices is None or arm.arm != "with":
        return
    yield f"\nWhich skill {arm.model} chose: right for {share(choices.accuracy)} of the requests"
    header = ("skill", "right", "missed", "wrong", "precision", "recall", "F1")
    rows = [
        (
            each.skill,
            str(each.right),
            str(each.missed),
            str(each.wrong),
            share(each.precision),
            share(each.recall),
            "-" if each.f1 is None else f"{each.f1:.2f}",
        )
        for each in choices.skills
    ]
    yield from columns([header, *rows])
    for miss in choices.near_misses[:MOST]:
        expected, chosen = (", ".join(names) or NO_SKILL for names in (miss.expected, miss.chosen))
        rate = "" if miss.rate == 1 else f", {percent(miss.rate)} of the runs"
        yield f"  {one_line(miss.request, _REQUEST)}: {chosen}, and not {expected}{rate}"
    yield from _more(len(choices.near_misses))


def _failures(summary: Summary) -> Iterator[str]:
    found = list(failures(summary))
    if not found:
        return
    yield f"\n{count(len(found), 'run')} did not pass:"
    for each in found[:MOST]:
        where = f" ({each.model})" if len(summary.head.models) > 1 else ""
        yield f"  {each.outcome}  {each.case}{where}: {reason(each)}"
        if each.thread:
            yield f"    skills-agent threads show {each.thread}"
    yield from _more(len(found))


def _more(found: int) -> Iterator[str]:
    if found > MOST:
        yield f"  and {found - MOST:,} more: --html FILE or --json has all"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows with their cells below one another."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        yield "  ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)).rstrip()
