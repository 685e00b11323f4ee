"""The one place where a tool call becomes a request for a runner: for the run, and for the question."""

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from skills_agent.skills.confined import NotRegularFileError, OutsideRootError, open_beneath
from skills_agent.skills.errors import ResourceOutsideError, ScriptError, ScriptNotFoundError
from skills_agent.skills.library.contents import relative_to
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.scripts.spelling import ScriptCall, SkillFiles, read_spelling
from skills_agent.skills.skill import SkillRef


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
    path, args = script_call(registry, ref, path, args)
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
    script = (root / relative).resolve()
    request = ScriptRequest(skill=ref.name, script=script, args=tuple(args), stdin=None, workdir=workdir)
    return of_skill(request, registry, ref, is_confirmed=is_confirmed)


def of_skill(
    request: ScriptRequest, registry: Registry, ref: SkillRef, *, is_confirmed: bool
) -> ScriptRequest:
    """Return a request as one of a loaded skill: its files are there, and what it was granted holds.

    `is_confirmed` as in `script_request`. Raises SkillError where its snapshot is gone.
    """
    root, place = registry.snapshot(ref).folder, registry.place(ref)
    return replace(
        request,
        skill=ref.name,
        source=ref.source,
        trusted=is_confirmed and registry.is_vouched_for(ref),
        root=root.resolve(),
        mounted_at=place,
        is_unchanged=partial(registry.snapshots.is_same, place, root.name),
    )


def script_call(registry: Registry, ref: SkillRef, path: str, args: Sequence[str] = ()) -> ScriptCall:
    """Return the script of a skill that a call means, however it spells it. Raises SkillError."""
    root, place = registry.snapshot(ref).folder, registry.place(ref)

    def is_file(path: str) -> bool:
        try:
            os.close(open_beneath(root, relative_to((place, root), path)))
        except (OSError, ValueError):
            return False
        return True

    if is_file(path):  # nearly always
        return ScriptCall(path, tuple(args))
    resources = registry.resources(ref).resources
    scripts = [each.path for each in resources if each.type == "script"] or [each.path for each in resources]
    return read_spelling(path, args, SkillFiles((ref.name, place.name), is_file, scripts))


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
