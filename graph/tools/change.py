"""What a call would change in a file, for the person who is asked: a diff against the file that is there."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from langchain_core.tools import ToolException
from pydantic import ValidationError

from skills_agent.graph.tools.edit import MAX_EDITED, EditArguments, Edited, Replacement
from skills_agent.graph.tools.workspace import Workspace
from skills_agent.skills.policy.approval_text import FileChange
from skills_agent.skills.text import count
from skills_agent.skills.text_diff import diff, lines_of, text_of

MAX_COMPARED: Final = 2_000_000
"""Bytes of a file from which on it is not compared."""


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
    start, old_size, changed = old
    is_whole = old_size <= len(start)
    digest = sha256(start).hexdigest() + ("" if is_whole else f"{old_size}, {changed}")
    before = text_of(start) if is_whole else None
    if before is None:
        kind = f"a file of {old_size:,} bytes, {'which is no text' if is_whole else 'too large to compare'}"
        return FileChange(real, f"replaces {kind}, with {size}", content, is_diff=False, digest=digest)
    if before == content:
        same = f"changes nothing: the file has these {size}"
        return FileChange(real, same, "", is_diff=False, digest=digest)
    summary = f"replaces {_count(before)} with {size}"
    return FileChange(real, summary, diff(before, content), is_diff=True, digest=digest)


def _count(text: str) -> str:
    return count(len(lines_of(text)), "line")
