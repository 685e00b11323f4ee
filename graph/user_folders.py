"""Where the agent keeps what is of this user: folders and files that follow from the settings.

Only this file reads the environment.
"""

import errno
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from skills_agent.graph.setting_values import DEFAULT, SettingsError
from skills_agent.skills.confined import write_own_file
from skills_agent.skills.policy.secret_paths import is_wide, secret_places

_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]")


class OfUser(Protocol):
    """Those of the settings that say where what is of this user is."""

    @property
    def workspace(self) -> Path:
        """Where the agent works."""

    @property
    def home(self) -> Path:
        """The user's own folder."""

    @property
    def origins(self) -> Mapping[str, str]:
        """Where each setting is from."""


def closed_places(settings: OfUser) -> tuple[Path, ...]:
    """Return what tools and scripts do not see of the workspace: secrets, and what the agent believes.

    Raises SettingsError where nobody said that the agent shall work in so wide a folder.
    """
    if settings.origins.get("workspace") == DEFAULT and is_wide(settings.workspace, settings.home):
        raise SettingsError(
            f"The agent would work in {settings.workspace}, and that is your home folder, or holds it. Go to "
            f"the folder of a project, or say that you mean it: --workspace {settings.workspace} (or "
            "SKILLS_AGENT_WORKSPACE)."
        )
    own = [user_state_folder(settings), user_config_folder(settings)]
    return secret_places(settings.workspace, settings.home, own)


def cache_folder(settings: OfUser) -> Path:
    """Return the folder below XDG_CACHE_HOME or `~/.cache`."""
    return user_folder("XDG_CACHE_HOME", settings.home / ".cache")


def trust_file_of(settings: OfUser) -> Path:
    """Return the file of the trust list, in the folder of the user's settings."""
    return user_config_folder(settings) / "trust.json"


def user_config_folder(settings: OfUser) -> Path:
    """Return the folder of the user's settings, below XDG_CONFIG_HOME or `~/.config`."""
    return user_folder("XDG_CONFIG_HOME", settings.home / ".config")


def user_state_folder(settings: OfUser) -> Path:
    """Return the folder of what the agent keeps for this user, below XDG_STATE_HOME or `~/.local/state`."""
    return user_folder("XDG_STATE_HOME", settings.home / ".local" / "state")


def state_folder(settings: OfUser) -> Path:
    """Return where threads, journal, locks and grants of the workspace are: never in the workspace itself.

    The digest of its real path keeps workspaces of one name apart. `make_state_folder` makes it.
    """
    workspace = settings.workspace.resolve()
    name = _NOT_PLAIN.sub("_", workspace.name)[:64] or "root"
    digest = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:12]
    return user_state_folder(settings) / f"{name}-{digest}"


def make_state_folder(settings: OfUser) -> Path:
    """Make the state folder, check that it is this user's alone, and return it.

    Its file `workspace` names the workspace. Raises PrivateFileError.
    """
    from skills_agent.graph.private_files import PrivateFileError, make_private_folder  # noqa: PLC0415

    folder = make_private_folder(user_state_folder(settings), state_folder(settings))
    if os.path.lexists(folder / "workspace"):
        return folder
    try:
        write_own_file(folder / "workspace", os.fsencode(settings.workspace.resolve()) + b"\n")
    except OSError as error:
        # On a disk that cannot be written, what is there can be read without that name.
        if error.errno not in {errno.EEXIST, errno.EROFS, errno.EACCES, errno.EPERM}:
            advice = "Free some room, or set XDG_STATE_HOME to a folder on another disk."
            raise PrivateFileError(folder, f"cannot be written ({error.strerror})", advice) from error
    return folder


def user_folder(variable: str, default: Path) -> Path:
    """Return the agent's folder in one that XDG's variable names; a relative one does not count (XDG)."""
    folder = Path(process_environment().get(variable, ""))
    return (folder if folder.is_absolute() else default) / "skills-agent"


def process_environment() -> Mapping[str, str]:
    """Return the environment of this process. All other code gets it as an argument."""
    return os.environ
