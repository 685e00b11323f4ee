"""Exact replacements in a text file, all of them or none."""

import json
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, Self

from langchain_core.tools import ToolException
from pydantic import BaseModel, BeforeValidator, Field

from skills_agent.skills.text import count, cut, one_line

MAX_EDITED: Final = 10_000_000
"""Bytes of a file."""
MAX_QUOTED: Final = 80


class Replacement(BaseModel):
    """One exact replacement: models know the names from Claude Code."""

    old_string: str
    new_string: str
    replace_all: bool = False


def _as_list(value: object) -> object:
    """Return a list for what models and chat UIs send in its place: JSON text, one object."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return [value] if isinstance(value, dict) else value


Edits = Annotated[list[Replacement], BeforeValidator(_as_list), Field(min_length=1, max_length=200)]


class EditArguments(BaseModel):
    """What a model sends to edit a file."""

    path: str
    edits: Edits


class Edited(NamedTuple):
    """A text after its replacements."""

    text: str
    summary: str
    """E.g. `2 replacements, +3 -1 lines`."""

    @classmethod
    def of(cls, raw: bytes, edits: Sequence[Replacement], path: str) -> Self:
        """Make replacements one after the other, each in what the earlier ones left.

        Line ends are the file's: where all of them are CRLF, a line break in a replacement is one, too.
        Raises ToolException where one does not fit: nothing is replaced then.
        """
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ToolException(f"{path} is not UTF-8 text. Nothing was changed.") from error
        has_crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
        made, added, removed = 0, 0, 0
        for number, edit in enumerate(edits, 1):
            old, new = edit.old_string, edit.new_string
            if has_crlf:
                old, new = (each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old, new))
            found = text.count(old) if old else 0
            if fault := _fault(old, new, found, edit):
                which = f"Edit {number} of {len(edits)}" if len(edits) > 1 else "The edit"
                raise ToolException(f"{which} of {path} does not fit: {fault} Nothing was changed.")
            text = text.replace(old, new)
            made, added = made + found, added + found * _lines(new)
            removed += found * _lines(old)
        return cls(text, f"{count(made, 'replacement')}, +{added} -{removed} lines")


def _fault(old: str, new: str, found: int, edit: Replacement) -> str:
    quoted = f'"{cut(one_line(edit.old_string), MAX_QUOTED)}"'
    if not old:
        return "old_string is empty. write_file makes a file or replaces it whole."
    if old == new:
        return "old_string and new_string are the same."
    if not found:
        return f"{quoted} is not in the file. Read it: blanks and line breaks count."
    if found > 1 and not edit.replace_all:
        return f"{quoted} is in it {found} times. Give more of the text around it, or set replace_all."
    return ""


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0
