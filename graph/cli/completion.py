"""What Tab offers in a chat: commands and skills after `/`, what they take, and files."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from skills_agent.graph.cli.printing import line_of, shown

Words = Mapping[str, str]
"""What may be typed, with a line about each."""

MAX_FILES: Final = 200
"""Offered of one folder."""
_FIRST: Final = re.compile(r"/(?P<begun>[^\s/]*)")
_SECOND: Final = re.compile(r"/(?P<command>[^\s/]+)[ \t]+(?P<begun>\S*)")
_PATH: Final = re.compile(r"(?:^|\s)(?P<at>@?)(?P<begun>\S*)$")


class ChatCompleter(Completer):
    """Completes `/NAME` at the beginning of a message, its argument, and paths after `@` or with a `/`."""

    def __init__(self, names: Words, arguments: Mapping[str, Words], workspace: Path) -> None:
        """Take the commands and skills, and for a command's name what it takes; paths are the workspace's."""
        self._names = names
        self._arguments = arguments
        self._workspace = workspace

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return what the text before the cursor may be the beginning of. All of it is untrusted."""
        del complete_event
        text = document.text_before_cursor
        if first := _FIRST.fullmatch(text):
            return _fitting(self._names, first["begun"])
        second = _SECOND.fullmatch(text)
        if second and second["command"] in self._arguments:
            return _fitting(self._arguments[second["command"]], second["begun"])
        path = _PATH.search(text)
        if path and (path["at"] or "/" in path["begun"]):
            return islice(self._files(path["begun"]), MAX_FILES)
        return ()

    def _files(self, begun: str) -> Iterator[Completion]:
        folder, _, name = begun.rpartition("/")
        place = self._workspace / Path(f"{folder}/" if folder or begun.startswith("/") else "").expanduser()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except (OSError, ValueError):
            return
        for entry in entries:
            is_hidden = entry.name.startswith(".") and not name.startswith(".")
            # A name with blanks or with what cannot be seen would not be read as one path.
            is_plain = shown(entry.name) == entry.name and not re.search(r"\s", entry.name)
            if entry.name.startswith(name) and is_plain and not is_hidden:
                yield Completion(f"{entry.name}{'/' if entry.is_dir() else ''}", start_position=-len(name))


def _fitting(words: Words, begun: str) -> Iterator[Completion]:
    for word, about in sorted(words.items()):
        if word.startswith(begun) and shown(word) == word:
            yield Completion(word, start_position=-len(begun), display_meta=line_of(about, 60))
