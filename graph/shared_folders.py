"""The setting `script_folders`: which folders of the person the scripts of a skill see."""

import os
from pathlib import Path, PurePosixPath
from typing import Final

from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.graph.user_folders import cache_folder, user_config_folder, user_state_folder
from skills_agent.skills.policy.secret_paths import is_wide
from skills_agent.skills.scripts.shared_folders import SharedFolder
from skills_agent.skills.sources.directory import STANDARD_FOLDERS

_WRITABLE: Final = "rw:"


def shared_folders(settings: Settings) -> dict[str, tuple[SharedFolder, ...]]:
    """Return the folders of each skill that the setting names. Raises SettingsError."""
    return {
        skill: tuple(_shared(text, settings) for text in texts)
        for skill, texts in settings.script_folders.items()
    }


def _shared(text: str, settings: Settings) -> SharedFolder:
    place = Path(text.removeprefix(_WRITABLE))
    if place.parts[:1] == ("~",):
        place = settings.home.joinpath(*place.parts[1:])
    if not place.is_absolute() or ".." in place.parts:
        raise SettingsError(f"Setting script_folders: {text!r} must be an absolute path, or begin with ~/.")
    real = Path(os.path.realpath(place))
    if is_wide(real, settings.home):
        raise SettingsError(
            f"Setting script_folders: {text!r} is a home folder, or holds one. Share a folder in it: in the "
            "rest are secrets, and settings that other programs obey."
        )
    if any(real.is_relative_to(each) or each.is_relative_to(real) for each in _believed(settings)):
        raise SettingsError(f"Setting script_folders: in {text!r} is what the agent itself believes or runs.")
    is_in_home = place.is_relative_to(settings.home)
    in_home = PurePosixPath(place.relative_to(settings.home)) if is_in_home else None
    return SharedFolder(real, text.startswith(_WRITABLE), in_home)


def _believed(settings: Settings) -> list[Path]:
    """Return the folders of the agent and of skills, and the workspace, which has rules of its own."""
    own = [cache_folder(settings), user_state_folder(settings), user_config_folder(settings)]
    skills = [*settings.skills_dirs, *(settings.home / name for name in STANDARD_FOLDERS)]
    return [Path(os.path.realpath(folder)) for folder in (*own, *skills, settings.workspace)]
