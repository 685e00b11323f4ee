"""The changes of a run as people read them after it: in one line."""

import os
from collections.abc import Collection, Iterable
from typing import Final

from skills_agent.skills.scripts.changes import Change, JudgedChange
from skills_agent.skills.text import clean_text, one_line, readable

MAX_NAMED: Final = 4
"""Files, or folders of files, of a kind."""


def summary(judged: Iterable[JudgedChange]) -> str:
    """Return changes in one line: `wrote report.md (+42), 3 files under out; removed a.csv; left out x`.

    What is left out without a word is not in it, nor are folders by themselves.
    """
    by_act: dict[str, list[Change]] = {"wrote": [], "removed": [], "left out": []}
    for change, decision, why in judged:
        is_removed = change.act == "removed"
        if decision != "allow" and why:
            by_act["left out"].append(change)
        elif decision == "allow" and (is_removed or change.kind != "folder"):
            by_act["removed" if is_removed else "wrote"].append(change)
    return "; ".join(f"{act} {_listed(found)}" for act, found in by_act.items() if found)


def _listed(changes: Collection[Change]) -> str:
    groups: dict[str, list[Change]] = {}
    for change in changes:
        is_named = len(changes) <= MAX_NAMED
        groups.setdefault(change.path if is_named else change.path.partition("/")[0], []).append(change)
    first, left = [*groups.values()][:MAX_NAMED], [*groups.values()][MAX_NAMED:]
    more = f" and {sum(map(len, left)):,} more" if left else ""
    return ", ".join(map(_named, first)) + more


def _named(changes: list[Change]) -> str:
    path = os.path.commonpath([change.path for change in changes])
    name = one_line(clean_text(readable(path)).text)
    if len(changes) > 1:
        return f"{len(changes):,} files under {name}"
    return f"{name} (+{changes[0].lines:,})" if changes[0].lines else name
