"""skills-agent skills stats: what became of skills, over the records of runs. Imports no LangGraph."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from skills_agent.graph.audit.log import Record, RunLog, read, without_repetitions
from skills_agent.graph.audit.stats import Counting, Failure, SkillStats, by_use
from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, local_time, print_json, print_section, table
from skills_agent.graph.cli.run_records import open_log
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.skills.errors import UnknownSkillError
from skills_agent.skills.text import count

_ASKERS: Final = {"model": "the model", "user": "a person", "caller": "--skill", "operator": "on_change"}
_SINCE: Final = re.compile(r"(\d+)([dhw])")
_HOURS: Final = {"h": 1, "d": 24, "w": 168}
_HEADER: Final = (
    "SKILL",
    "OFFERED",
    "FOUND",
    "LOADED",
    "USED",
    "IGNORED",
    "RUNS",
    "FAILED",
    "TOKENS",
    "SECONDS",
)
_THREADS: Final = 10


def _since(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """Return an ISO time for `7d`, `12h`, `2w` or a date; empty for none."""
    if value is None:
        return ""
    if ago := _SINCE.fullmatch(value):
        hours = int(ago[1]) * _HOURS[ago[2]]
        try:
            return (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
        except OverflowError:
            return ""
    try:
        day = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter("use 7d, 12h, 2w or a date like 2026-11-01.", ctx=ctx, param=param) from None
    return (day if day.tzinfo else day.astimezone()).astimezone(UTC).isoformat()


@click.command(epilog=options.examples("skills stats", "skills stats csv-report --since 7d"))
@click.argument("name", required=False)
@click.option(
    "--since", callback=_since, metavar="WHEN", help="Only runs since then: 7d, 12h, 2w, or a date."
)
@options.folders
@options.as_json
def stats(
    name: str | None,
    *,
    since: str,
    workspace: Path | None,
    skills_dirs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Show how often skills were offered, loaded and used in this workspace, and what they cost.

    Counts the records of runs (`skills-agent runs list`); runs of evals are not among them.

    OFFERED: turns whose model could load it. FOUND: searches that found it. USED: loads after which a script
    of it ran, a file of it was read, or a command named it. IGNORED: loads after which none of that happened
    in the thread, though it has files. TOKENS: about, its instructions in every prompt that had them.
    SECONDS: of its scripts.
    """
    settings = Settings.load(workspace)
    counting, damaged = _count(open_log(settings), since)
    known = [skill.name for skill in registry_of(settings, skills_dirs).refresh().skills]
    for each in known:
        counting.skills.setdefault(each, SkillStats(each))
    if name is not None and name not in counting.skills:
        raise UnknownSkillError(name, sorted(counting.skills))
    found = [counting.skills[name]] if name is not None else by_use(counting.skills.values())
    never = [each.name for each in found if not each.loaded and each.name in known]
    if as_json:
        print_json(
            {
                "turns": counting.turns,
                "turns_without_offered": counting.unlisted,
                "damaged_lines": damaged,
                "never_loaded": never,
                "skills": [_record(each) for each in found],
            }
        )
        return
    if name is not None:
        _print_one(found[0])
        if counting.unlisted:
            echo(f"\n{_turns_text(counting)}")
    else:
        _print_all(found, counting, never)
    if damaged:
        lines = count(damaged, "line")
        click.echo(f"\n{lines} of the records cannot be read. See: skills-agent runs verify", err=True)


def _count(log: RunLog, since: str) -> tuple[Counting, int]:
    counting, damaged = Counting(), 0
    for name in log.threads():
        lines = log.lines(name)
        records = [record for line in lines if (record := read(line))]
        damaged += len(lines) - len(records)
        counting.thread(_later(without_repetitions(records), since))
    return counting, damaged


def _later(records: Iterator[Record], since: str) -> Iterator[Record]:
    """Yield the records of runs that began since then."""
    if not since:
        yield from records
        return
    runs: dict[object, bool] = {}
    start = datetime.fromisoformat(since)
    for record in records:
        if runs.setdefault(record.get("run"), _is_since(record.get("time"), start)):
            yield record


def _is_since(time: object, start: datetime) -> bool:
    try:
        return datetime.fromisoformat(str(time)) >= start
    except (ValueError, TypeError):
        return False


def _row(each: SkillStats) -> tuple[str, ...]:
    numbers = (
        each.offered,
        each.found,
        each.loaded,
        each.used,
        each.ignored,
        each.runs,
        each.failed,
        each.tokens,
    )
    return (each.name, *(f"{number:,}" if number else "-" for number in numbers), f"{each.seconds:.1f}")


def _turns_text(counting: Counting) -> str:
    text = f"{count(counting.turns, 'turn')} on record."
    if not counting.unlisted:
        return text
    return (
        f"{text} {counting.unlisted} of them had too many skills to name what was offered: not counted there."
    )


def _print_all(found: Sequence[SkillStats], counting: Counting, never: Sequence[str]) -> None:
    echo(_turns_text(counting))
    rows = [_row(each) for each in found if each.loaded or each.found or each.refused]
    if rows:
        echo()
        table(rows, header=_HEADER)
    ignored = [each for each in found if each.ignored and each.ignored >= each.loaded / 2]
    said = (f"{each.name}: {each.ignored} of {count(each.loaded, 'load')}" for each in ignored)
    print_section("Loaded and then ignored", map(line_of, said))
    print_section("Never loaded", map(line_of, never))
    if never and counting.turns:
        echo("\nWhich requests would reach one: skills-agent skills triggers NAME")


def _print_one(each: SkillStats) -> None:
    askers = ", ".join(f"{many} by {_ASKERS.get(asker, asker)}" for asker, many in each.loads.most_common())
    facts = [
        ("offered", f"in {count(each.offered, 'turn')}"),
        ("found", f"by {each.found} search{'es' if each.found != 1 else ''}"),
        ("loaded", f"{count(each.loaded, 'time')}{f': {askers}' if askers else ''}"),
        ("refused", count(each.refused, "time") if each.refused else ""),
        ("used", f"after {count(each.used, 'load')}, ignored after {each.ignored}" if each.loaded else ""),
        ("followed by", ", ".join(f"{tool} ({many})" for tool, many in each.followed_by.most_common())),
        (
            "scripts",
            f"{count(each.runs, 'run')}, {each.failed} failed, {each.seconds:.1f} s" if each.runs else "",
        ),
        ("tokens", f"about {each.tokens:,}" if each.tokens else ""),
        ("threads", ", ".join(each.threads[-_THREADS:][::-1])),
    ]
    echo(each.name)
    table([(label, value) for label, value in facts if value])
    failures = sorted(each.failures.values(), key=lambda failure: -failure.count)
    print_section("Failures", (line_of(_failure_text(failure)) for failure in failures))


def _failure_text(failure: Failure) -> str:
    when = f"last {local_time(failure.last)} in {failure.thread}"
    return f"{failure.count} x {failure.script}: {failure.how}, {when}"


def _record(each: SkillStats) -> dict[str, Any]:
    return {
        **vars(each),
        "loaded": each.loaded,
        "failures": [vars(failure) for failure in each.failures.values()],
    }
