"""What became of skills, over the records of runs: `skills list --stats`. Imports no LangGraph."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import click

from skills_agent.graph.audit.events import Record
from skills_agent.graph.audit.log import read, without_repetitions
from skills_agent.graph.cli.printing import line_of, print_json, print_section, table
from skills_agent.graph.cli.runs import log_of
from skills_agent.graph.settings import Settings
from skills_agent.skills.library.catalog import Catalog

_COLUMNS: Final = ("loaded", "used", "tokens")
_CHARACTERS_OF_A_TOKEN: Final = 4


def print_stats(settings: Settings, catalog: Catalog, *, as_json: bool) -> None:
    """Print how often skills were loaded and used in a workspace, and what they cost."""
    log, counts, damaged = log_of(settings), dict[str, Counter[str]](), 0
    for name in log.threads():
        lines = log.lines(name)
        records = [record for record in map(read, lines) if record]
        damaged += len(lines) - len(records)
        count_thread(without_repetitions(records), counts)
    known = (skill.name for skill in catalog.skills)
    never = [name for name in known if name not in counts or not counts[name]["loaded"]]
    names = sorted(counts, key=lambda name: (-counts[name]["loaded"], name))
    if as_json:
        found = [{"name": name, **{each: counts[name][each] for each in _COLUMNS}} for name in names]
        print_json({"skills": found, "never_loaded": never, "damaged_lines": damaged})
        return
    loaded = [name for name in names if counts[name]["loaded"]]
    shown = [(name, *(f"{counts[name][each]:,}" for each in _COLUMNS)) for name in loaded]
    table(shown, header=("SKILL", *map(str.upper, _COLUMNS)), empty="No run on record loaded a skill.")
    print_section("Never loaded", map(line_of, never))
    if damaged:
        told = "lines of the records cannot be read. See: skills-agent runs --verify"
        click.echo(f"\n{damaged} {told}", err=True)


def count_thread(records: Iterable[Record], counts: dict[str, Counter[str]]) -> None:
    """Add what became of each skill in one thread. Values of a wrong type count for nothing."""
    sizes: dict[str, int] = {}
    """Of the instructions that are loaded now, in characters."""
    unused: set[str] = set()

    def add(skill: str, column: str, number: int = 1) -> None:
        counts.setdefault(skill, Counter())[column] += number

    for record in records:
        skill, kind = str(record.get("skill")), record.get("type")
        if kind == "skill_loaded":
            size = record.get("characters")
            sizes[skill] = size if isinstance(size, int) else 0
            unused.add(skill)
            add(skill, "loaded")
        elif kind == "skill_unloaded":
            sizes.pop(skill, None)
            unused.discard(skill)
        elif kind == "model_called":
            for each, size in sizes.items():
                add(each, "tokens", size // _CHARACTERS_OF_A_TOKEN)
        elif _is_use(record) and skill in unused:
            unused.remove(skill)
            add(skill, "used")


def _is_use(record: Record) -> bool:
    is_run = record.get("type") == "call_ended" and "exit_code" in record and not record.get("reused")
    return is_run or record.get("type") == "resource_read"
