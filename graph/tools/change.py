"""What a call would change in a file, for the person who is asked: a diff against the file that is there."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import unified_diff
from hashlib import sha256
from itertools import takewhile
from typing import Any, Final

from langchain_core.tools import ToolException
from pydantic import ValidationError

from skills_agent.graph.tools.edit import MAX_EDITED, EditArguments, Edited, Replacement
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.skills.policy.approval_text import FileChange
from skills_agent.skills.text import count

MAX_COMPARED: Final = 2_000_000
"""Bytes of a file from which on it is not compared."""
MAX_STEPS: Final = 30_000_000
"""Of the comparison, at worst: about a second. A text made to be slow is shown as replaced whole."""
CONTEXT: Final = 3
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


Changes = Mapping[str, Callable[[Mapping[str, Any]], FileChange | None]]
"""By tool, what says what a call with these arguments would change; None for unusable ones."""


def changes_in(workspace: Workspace) -> Changes:
    """Return, by tool, what says what a call with these arguments would change; None for unusable ones."""

    def written(args: Mapping[str, Any]) -> FileChange | None:
        match args:
            case {"path": str(path), "content": str(content)}:
                return change_of(workspace, path, content)
        return None

    def edited(args: Mapping[str, Any]) -> FileChange | None:
        try:
            wanted = EditArguments.model_validate(args)
        except ValidationError:
            return None
        return edit_of(workspace, wanted.path, wanted.edits)

    return {"write_file": written, "edit_file": edited}


def edit_of(workspace: Workspace, path: str, edits: Sequence[Replacement]) -> FileChange:
    """Return what replacements would change now; why they cannot be made is its fault."""
    try:
        new = Edited.of(workspace.read(path, MAX_EDITED), edits, path)
    except ToolException as error:
        return FileChange(path, "", "", is_diff=False, digest="", fault=str(error))
    change = change_of(workspace, path, new.text)
    if change.is_diff:
        return change._replace(summary=new.summary)
    pairs = ((_marked("-", edit.old_string), _marked("+", edit.new_string)) for edit in edits)
    return change._replace(
        summary=new.summary, text="\n".join(f"{old}\n{to}" for old, to in pairs), is_diff=True
    )


def _marked(mark: str, text: str) -> str:
    return "\n".join(f"{mark}{line}" for line in text.split("\n"))


def change_of(workspace: Workspace, path: str, content: str) -> FileChange:
    """Return what writing `content` to a file would change now. What the tool would refuse is said."""
    real = path
    try:
        real = workspace.real(path)
        old = workspace.find(path, MAX_COMPARED)
    except (ToolException, UnicodeEncodeError) as error:  # a half of a character is no path
        text = f"what is there cannot be compared: {error}"
        return FileChange(real, text, content, is_diff=False, digest="")
    size = _count(content)
    if old is None:
        return FileChange(real, f"new file, {size}", content, is_diff=False, digest="new")
    is_whole = old.size <= len(old.start)
    digest = sha256(old.start).hexdigest() + ("" if is_whole else f"{old.size}, {old.changed}")
    before = _text(old.start) if is_whole else None
    if before is None:
        kind = f"a file of {old.size:,} bytes, {'which is no text' if is_whole else 'too large to compare'}"
        return FileChange(real, f"replaces {kind}, with {size}", content, is_diff=False, digest=digest)
    if before == content:
        same = f"changes nothing: the file has these {size}"
        return FileChange(real, same, "", is_diff=False, digest=digest)
    summary = f"replaces {_count(before)} with {size}"
    return FileChange(real, summary, diff(before, content), is_diff=True, digest=digest)


def _text(raw: bytes) -> str | None:
    try:
        return None if b"\0" in raw else raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def diff(before: str, after: str) -> str:
    r"""Return a unified diff without its head; where the last line has no `\n`, it says so."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    lines = list(unified_diff(old, new, n=CONTEXT))[2:] if _is_quick(old, new) else _replaced(old, new)
    return "".join(line if line[-1] == "\n" else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _is_quick(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether difflib is done soon: it looks at all pairs of equal lines, again for each block."""
    counts = Counter(new)
    pairs = sum(counts[line] for line in old) + len(old)
    return pairs * min(len(old), len(new)) <= MAX_STEPS


def _replaced(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return a diff in one piece: what both begin and end with is left out."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    rest = zip(reversed(old[same:]), reversed(new[same:]), strict=False)
    end = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], rest))
    gone, come = old[same : len(old) - end], new[same : len(new) - end]
    head = f"@@ -{same + 1},{len(gone)} +{same + 1},{len(come)} @@\n"
    return [head, *(f"-{line}" for line in gone), *(f"+{line}" for line in come)]


def _count(text: str) -> str:
    return count(len(_LINE.findall(text)), "line")
