"""The variables that a script sees: an allow-list, its own folders, and the secrets it was granted."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from skills_agent.skills.scripts.runner import ScriptRequest

PASSED_ON: Final = ("PATH", "LANG", "LC_*", "TZ")
"""The variables that a script inherits; a `*` at the end stands for any ending."""

FIXED: Final = {
    "PYTHONUTF8": "1",
    "PYTHONIOENCODING": "utf-8",
    # Output before a time limit is worth more than speed, and a skill's folder stays as it is.
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def allowed(environment: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return the variables that the names let through."""
    exact = {name for name in names if not name.endswith("*")}
    prefixes = tuple(name.removesuffix("*") for name in names if name.endswith("*"))
    return {
        name: value
        for name, value in environment.items()
        if name in exact or (prefixes and name.startswith(prefixes))
    }


def script_environment(
    inherited: Mapping[str, str], secrets: Mapping[str, str], home: Path, temporary: Path
) -> dict[str, str]:
    """Return the whole environment of one run."""
    own = {"HOME": str(home), "TMPDIR": str(temporary)}
    return {"LANG": "C.UTF-8", **inherited, **secrets, **FIXED, **own}


def uv_cache(environment: Mapping[str, str]) -> str | None:
    """Return the cache that uv uses outside of a run: with HOME replaced, it would start a new one."""
    if environment.get("UV_CACHE_DIR"):
        return environment["UV_CACHE_DIR"]
    if environment.get("XDG_CACHE_HOME"):
        return str(Path(environment["XDG_CACHE_HOME"], "uv"))
    home = environment.get("HOME")
    return str(Path(home, ".cache", "uv")) if home else None


def is_granted(grants: Collection[str], request: ScriptRequest) -> bool:
    """Tell whether the operator named this skill: as `name@source`, or as `name` if its source is trusted.

    A repository can bring a skill of any name. It must not be handed what was meant for another.
    """
    return f"{request.skill}@{request.source}" in grants or (request.trusted and request.skill in grants)


def secrets_of(
    granted: Mapping[str, Collection[str]], request: ScriptRequest, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the secrets of the request's skill that are set, by their variables' names."""
    names = {name for skill, names in granted.items() if is_granted((skill,), request) for name in names}
    return {name: environment[name] for name in sorted(names) if environment.get(name)}
