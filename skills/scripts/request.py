"""The one place where a tool call becomes a request for a runner: for the run, and for the question."""

import json
import os
import re
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from skills_agent.skills.confined import NotRegularFileError, OutsideRootError, open_beneath
from skills_agent.skills.errors import ResourceOutsideError, ScriptError, ScriptNotFoundError
from skills_agent.skills.library.contents import relative_to
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.skill import SkillRef

OPERATOR: Final = re.compile(r"\$\(|[|&;<>()`\n]")
QUOTED: Final = re.compile(r"""(?s)\\.|'[^']*'|"(?:\\.|[^"\\])*"|['"].*""")
"""What a shell takes as text. A quote that is not closed quotes the rest."""
BUILTINS: Final = frozenset(
    {"cd", "export", "source", ".", "alias", "set", "unset", "eval", "exec", "ulimit"}
)


def script_request(
    registry: Registry,
    ref: SkillRef,
    path: str,
    *,
    workdir: Path,
    is_confirmed: bool,
    args: Sequence[str] = (),
) -> ScriptRequest:
    """Return the request for a script of a skill's snapshot; nothing outside of it is ever looked at.

    `is_confirmed`: the agent itself loaded that version from that source.

    Raises SkillError for what is no script of the skill.
    """
    root, place = registry.snapshot(ref).folder, registry.place(ref)
    relative = relative_to((place, root), path)
    try:
        os.close(open_beneath(root, relative))
    except OutsideRootError as error:
        raise ResourceOutsideError(ref.name, path) from error
    except (FileNotFoundError, NotADirectoryError, NotRegularFileError) as error:
        listing = registry.resources(ref)
        scripts = [each.path for each in listing.resources if each.type == "script"]
        raise ScriptNotFoundError(ref.name, path, scripts) from error
    except OSError as error:
        raise ScriptError(f"Cannot read {path} of skill {ref.name}: {error.strerror}.") from error
    return ScriptRequest(
        skill=ref.name,
        script=(root / relative).resolve(),
        args=tuple(args),
        stdin=None,
        workdir=workdir,
        source=ref.source,
        trusted=is_confirmed and registry.is_vouched_for(ref),
        root=root.resolve(),
        mounted_at=place,
        is_unchanged=partial(registry.snapshots.is_same, place, root.name),
    )


def command_request(command: str, *, workdir: Path) -> ScriptRequest:
    """Return the request for a program of the machine. Raises ScriptError for what only a shell can do."""
    return ScriptRequest(skill="", script=None, args=split_command(command), stdin=None, workdir=workdir)


def as_arguments(value: object) -> object:
    """Return a list of strings for what models send: numbers in it, one shell-like string, a JSON list."""
    if value is None:
        return []
    if isinstance(value, str):
        return _split(value)
    if isinstance(value, list):
        return [json.dumps(item) if isinstance(item, (bool, int, float)) else item for item in value]
    return value


def _split(text: str) -> object:
    if text.lstrip().startswith("["):
        try:
            return as_arguments(json.loads(text))
        except json.JSONDecodeError:
            pass
    try:
        return shlex.split(text)
    except ValueError:  # an apostrophe, most of the time
        return text.split()


def split_command(line: str) -> tuple[str, ...]:
    """Split a command line as a shell would. Raises ScriptError for what only a shell can do.

    That is operators, assignments and builtins. Nothing is expanded: `$HOME`, `*` and `~` reach the program
    as they are.
    """
    text = line.strip()
    if operator := OPERATOR.search(QUOTED.sub("_", text)):
        shown = "a line break" if operator[0] == "\n" else operator[0]
        raise ScriptError(
            f"There is no shell here, so {shown} means nothing. Run one program with its arguments at a "
            "time; put text that only looks like an operator in quotes."
        )
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ScriptError(f"The command cannot be split into words: {error}.") from error
    if not words:
        raise ScriptError("The command is empty.")
    name, assigned, _ = words[0].partition("=")
    if words[0] in BUILTINS or (assigned and name.isidentifier()):
        raise ScriptError(
            f"There is no shell here, so {words[0]} means nothing. Every command starts in the working "
            "directory with the same environment: give paths relative to it."
        )
    return words
