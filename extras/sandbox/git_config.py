"""What git's configuration names: programs that git runs, hooks, and more configuration.

Read here and not by git, because it is read before every script; so it is taken loosely: whatever of a value
may be a path counts, if it is there.
"""

import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_CONFIGS: Final = 30
"""Files of configuration that one repository leads to."""
_ENTRY: Final = re.compile(r"^\s*(?:\[[^\]]*\]\s*)*([A-Za-z][\w-]*)\s*=\s*(.*)$")
_IN_VALUE: Final = re.compile(r"""[^\s"';|&<>()`$!=,#]+""")
_FOLDERS_OR_FILES: Final = frozenset({"hookspath", "path", "templatedir"})
_NO_PROGRAMS: Final = frozenset(
    {"name", "email", "url", "pushurl", "fetch", "push", "merge", "remote", "worktree"}
)
"""Keys whose values may be like the name of a file, and that git never runs."""


class Named(NamedTuple):
    """A text in a configuration that may be a path."""

    text: str
    is_config: bool
    """Whether it may be included configuration."""
    may_be_folder: bool


def global_configs() -> list[str]:
    """Return the files with what a user tells git for every repository, such as a folder of hooks in each."""
    home = os.path.expanduser("~")  # noqa: PTH111 - paths are text here
    return [f"{home}/.gitconfig", f"{home}/.config/git/config"]


def named_in(config: str) -> Iterator[Named]:
    """Yield what the values of a configuration may name, each once."""
    seen = set()
    for line in config.replace("\\\n", "").splitlines():
        if not (entry := _ENTRY.match(line)) or (key := entry[1].casefold()) in _NO_PROGRAMS:
            continue
        value = entry[2].replace("\\", "")
        whole = re.split(r'"[^"]*$|[;#]', value.strip().removeprefix('"'), maxsplit=1)[0].strip()
        for text in (whole, *_IN_VALUE.findall(value)):
            named = Named(text, key == "path", key in _FOLDERS_OR_FILES)
            if text and named not in seen:
                seen.add(named)
                yield named
