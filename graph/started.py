"""What servers start from. Imports no LangGraph."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from skills_agent.graph.setting_values import ServerSetting
from skills_agent.graph.settings import Settings
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.scripts.programs import find_program

MAX_BYTES: Final = 1 << 17
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
"""A text in JSON."""


def started_by_server(server: ServerSetting, settings: Settings) -> Iterator[Path]:
    """Yield what a server of tools starts from, wherever it lies: folders, and files at the top."""
    folder = server.cwd.expanduser() if server.cwd else settings.home
    words = [*server.args, *server.literals().values(), str(folder) if server.cwd else ""]
    program = find_program(server.command, workspace=settings.workspace).path or server.command
    yield from _named(
        [program, *(each for each in words if each not in server.data)], folder, settings.workspace
    )


def named_in(file: Path, workspace: Path) -> Iterator[Path]:
    """Yield what a file of LangGraph's server names of the workspace; nothing where it cannot be read."""
    with suppress(OSError, ValueError):
        texts = _TEXT.findall(read_beneath(workspace, file.name, MAX_BYTES).decode())
        for text in dict.fromkeys(texts):  # each by itself: a clone may have very many
            yield from _named([json.loads(text)], workspace, workspace)


def _named(words: Iterable[str], folder: Path, workspace: Path) -> Iterator[Path]:
    """Yield what words name of the workspace; of a program all that is beside it, which it may load.

    `package.module` names the package, `./agent.py:graph` the file. A word counts also from the folders that
    are named before it.
    """
    root, folders = workspace.resolve(), [folder]
    for word in words:
        texts = {word, word if "/" in word else word.partition(".")[0], *re.split(r"[=:\s]", word)}
        for place in [base / text for base in folders for text in texts if text]:
            with suppress(OSError, ValueError, RuntimeError):
                real = place.expanduser().resolve(strict=True)
                if real.is_dir() and real not in folders:
                    folders.append(real)
                for each in {place.expanduser(), real}:
                    yield each if real.is_dir() or each.parent.resolve() == root else each.parent
