"""What the last runs changed in texts, as diffs: of the files that are kept for `undo`."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from skills_agent.sandbox.layer import read_whole
from skills_agent.sandbox.layered import LAYERS, LayerStore
from skills_agent.sandbox.plan import Plan
from skills_agent.skills.scripts.changes import Change
from skills_agent.skills.text import readable
from skills_agent.skills.text_diff import diff, lines_of, text_of

MAX_FILES: Final = 100
"""Of one run: so many diffs are made, of the files that come first."""
MAX_LINES: Final = 400
"""Of one diff."""
Kept = Sequence[tuple[Plan, Path]]


def diffs(state: Path, workspace: Path) -> Mapping[tuple[str, str], str]:
    """Return the diffs by the key of the call and the path from the workspace on. Raises as `Applier` does.

    A file that somebody changed since the run has none: nobody knows what the run left there.
    """
    if not (state / LAYERS).is_dir():
        return {}
    store = LayerStore.of(state, workspace)
    kept = store.applier(store.workspace).kept()
    return {
        (plan.run, readable(path)): text
        for at, (plan, _) in enumerate(kept)
        for path, text in _diffs(kept[at:], store.workspace)
    }


def _diffs(kept: Kept, workspace: Path) -> Iterator[tuple[str, str]]:
    """Yield the diffs of the first plan; what is kept of a later one is what the first one left."""
    plan, before = kept[0]
    for change in [each for each in plan.changes if each.kind in {"file", "executable"}][:MAX_FILES]:
        old = b"" if change.act == "added" else read_whole(before, str(_numbers(plan).get(change.path)))
        new = b"" if change.act == "removed" else _left(change, kept[1:], workspace)
        texts = [None if raw is None else text_of(raw) for raw in (old, new)]
        if texts[0] is not None and texts[1] is not None:
            yield change.path, _bounded(diff(texts[0], texts[1]))


def _left(change: Change, later: Kept, workspace: Path) -> bytes | None:
    """Return what a run left at a path, if that is known."""
    places = ((before, _numbers(plan).get(change.path)) for plan, before in later)
    folder, name = next(
        ((before, str(at)) for before, at in places if at is not None), (workspace, change.path)
    )
    raw = read_whole(folder, name)
    return raw if raw is not None and sha256(raw).hexdigest() == change.digest else None


def _numbers(plan: Plan) -> dict[str, int]:
    """Return under which numbers a plan keeps what was at its paths."""
    return {step.path: number for number, step in enumerate(plan.steps) if step.act in {"take", "put"}}


def _bounded(text: str) -> str:
    lines = lines_of(text)
    rest = len(lines) - MAX_LINES
    return "".join(lines[:MAX_LINES]) + (f"\u2026 {rest:,} more lines\n" if rest > 0 else "")
