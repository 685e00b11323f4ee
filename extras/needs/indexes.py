"""Where this user's Python packages come from: what pip is told, said in the variables of uv.

uv has settings of its own and reads none of pip's. A person who set up one of them has an index all the same.
"""

from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from pathlib import Path
from typing import Final

_OF_PIP: Final = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
_OF_UV: Final = {
    "UV_DEFAULT_INDEX": ("UV_INDEX_URL",),
    "UV_INDEX": ("UV_EXTRA_INDEX_URL",),
}
"""Older names of variables of uv: what is said in one of them stays."""


def index_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that uv lacks, from the variables of pip and its files of settings."""
    named = _settings_of_pip(environment)
    said = {
        variable: " ".join(named[option].split())
        for option, variable in _OF_PIP.items()
        if option in named and not any(map(environment.get, (variable, *_OF_UV.get(variable, ()))))
    }
    if "UV_FIND_LINKS" in said:  # pip separates by blanks, uv by commas
        said["UV_FIND_LINKS"] = said["UV_FIND_LINKS"].replace(" ", ",")
    return said


def index_options(environment: Mapping[str, str]) -> list[str]:
    """Return the options of uv for what it has no variable for."""
    is_offline = _settings_of_pip(environment).get("no-index", "").lower() in {"1", "true", "yes", "on"}
    return ["--no-index"] if is_offline else []


def _settings_of_pip(environment: Mapping[str, str]) -> dict[str, str]:
    variables = {option: f"PIP_{option.upper().replace('-', '_')}" for option in (*_OF_PIP, "no-index")}
    said = {option: environment[name] for option, name in variables.items() if environment.get(name)}
    return {**dict(_files(environment)), **said}


def _files(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options of pip's files, the strongest last: the machine's, the user's, the named one."""
    home = Path(environment.get("HOME") or Path.home())
    users = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    machines = [
        Path(each) / "pip" / "pip.conf"
        for each in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    ]
    named = [Path(environment["PIP_CONFIG_FILE"])] if environment.get("PIP_CONFIG_FILE") else []
    for path in (*machines, Path("/etc/pip.conf"), home / ".pip" / "pip.conf", users, *named):
        parser = ConfigParser(interpolation=None)
        try:
            parser.read_string(path.read_text(encoding="utf-8"))
        except (OSError, ConfigError, UnicodeDecodeError):
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                yield from parser.items(section)
