"""The one place where a tool call becomes a request for a runner: for the run, and for the question."""

import json
import os
import posixpath
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skills_agent.skills.confined import open_beneath
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import not_read, resources
from skills_agent.skills.scripts.runner import ScriptRequest
from skills_agent.skills.scripts.spelling import ScriptCall, read_spelling
from skills_agent.skills.skill import SkillRef
from skills_agent.skills.sources.plugin import PLUGIN_ROOT

if TYPE_CHECKING:
    from skills_agent.skills.library.snapshot import Snapshot


def script_request(
    registry: Registry,
    ref: SkillRef,
    path: str,
    *,
    workdir: Path,
    args: Sequence[str] = (),
) -> ScriptRequest:
    """Return the request for a script of a skill's snapshot; nothing outside of it is ever looked at.

    Raises SkillError for what is no script of the skill.
    """
    snapshot = registry.snapshot(ref)
    path, args = script_call(registry, ref, snapshot, path, args)
    root, relative = snapshot.locate(path, registry.place(ref))
    try:
        os.close(open_beneath(root, relative))
    except OSError as error:
        raise not_read(registry, ref, path, error, "script") from error
    script = (root / relative).resolve()
    request = ScriptRequest(skill=ref.name, script=script, args=tuple(args), stdin=None, workdir=workdir)
    return of_skill(request, registry, ref, snapshot)


def of_skill(
    request: ScriptRequest, registry: Registry, ref: SkillRef, snapshot: "Snapshot"
) -> ScriptRequest:
    """Return a request as one of a loaded skill: its files are there, and what it was granted holds."""
    place, plugin_now = registry.place(ref), registry.plugin_of(ref)
    plugin = snapshot.plugin_at(place)
    return replace(
        request,
        skill=ref.name,
        source=ref.source,
        trusted=registry.is_vouched_for(ref),
        root=(snapshot.plugin or snapshot.folder).resolve(),
        mounted_at=plugin or place,
        skill_inside=snapshot.inside,
        plugin=plugin_now.in_place if plugin_now and not plugin else None,
        is_unchanged=partial(registry.snapshots.is_same, place, snapshot.digest, plugin_now),
    )


def script_call(
    registry: Registry, ref: SkillRef, snapshot: "Snapshot", path: str, args: Sequence[str] = ()
) -> ScriptCall:
    """Return the script of a skill that a call means, however it spells it. Raises SkillError.

    One of its plugin has a path that begins with `${CLAUDE_PLUGIN_ROOT}`.
    """
    place = registry.place(ref)

    def is_file(path: str) -> bool:
        try:
            os.close(open_beneath(*snapshot.locate(path, place)))
        except (OSError, ValueError):
            return False
        return True

    if is_file(path):  # nearly always
        return ScriptCall(_shown(path, snapshot, place), tuple(args))
    files = resources(registry, ref).resources
    scripts = [file.path for file in files if file.type == "script"] or [file.path for file in files]
    call = read_spelling(path, args, names=(ref.name, place.name), is_file=is_file, scripts=scripts)
    return call._replace(path=_shown(call.path, snapshot, place)) if is_file(call.path) else call


def _shown(path: str, snapshot: "Snapshot", place: Path) -> str:
    """Return the one spelling of a path in a skill with a plugin: policy compares no others."""
    if snapshot.plugin is None:
        return path
    relative = posixpath.normpath(snapshot.locate(path, place).relative)
    own = relative.removeprefix(f"{snapshot.inside}/")
    return f"{PLUGIN_ROOT}/{relative}" if own == relative else own


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
