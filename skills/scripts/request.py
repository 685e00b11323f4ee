"""What a runner is asked for: the one place where a tool call becomes a request.

The tool that runs it and the question before it ask here, so that they cannot differ.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from skills_agent.skills.errors import ResourceOutsideError, ScriptError, ScriptNotFoundError
from skills_agent.skills.files import NotRegularFileError, OutsideRootError, open_beneath
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import relative_to
from skills_agent.skills.scripts.command_line import split_command
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.skill import SkillRef


def script_request(
    registry: Registry, ref: SkillRef, path: str, *, workdir: Path, args: Sequence[str] = ()
) -> ScriptRequest:
    """Return the request for a script of a skill's snapshot; nothing outside of it is ever looked at.

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
        trusted=registry.is_vouched_for(ref),
        root=root.resolve(),
        mounted_at=place,
        is_unchanged=partial(registry.snapshots.is_same, place, root.name),
    )


def command_request(command: str, *, workdir: Path) -> ScriptRequest:
    """Return the request for a program of the machine. Raises ScriptError for what only a shell can do."""
    return ScriptRequest(skill="", script=None, args=split_command(command), stdin=None, workdir=workdir)
