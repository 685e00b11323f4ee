"""What follows the agent's instructions: the operator's text, AGENTS.md, the day and the folder."""

import logging
import platform
from asyncio import iscoroutinefunction
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from langchain_core.messages import SystemMessage

from skills_agent.graph.settings import Settings, SettingsError
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.text import cut, one_line
from skills_agent.state.schema import AgentState

logger = logging.getLogger(__name__)

SystemPrompt: TypeAlias = str | SystemMessage | Callable[[AgentState], str | SystemMessage]
"""A text, alone or in a message, or what makes one of the state.

The same state must give the same text, for the provider's cache.
"""

_TAKES: Final = "`system_prompt` takes a text, a SystemMessage, or a function of the state that returns one"
AGENTS_MD: Final = "AGENTS.md"
_MAX_FILE: Final = 1 << 20
_MAX_SHOWN: Final = 32_000
"""Bytes of the file, and characters of it that are shown."""


def system_prompt_of(
    settings: Settings, host: SystemPrompt | None, today: Callable[[], date] = date.today
) -> Callable[[AgentState], str]:
    """Return what makes the text; a host's takes the place of the setting. `today` is the machine's date.

    Raises SettingsError for a host's that is neither a text nor a function; so does what is returned for one
    that makes no text.
    """
    if not (host is None or isinstance(host, str | SystemMessage) or callable(host)) or iscoroutinefunction(
        host
    ):
        kind = "a coroutine function" if callable(host) else type(host).__name__
        raise SettingsError(f"{_TAKES}, not {kind}.")
    said = settings.system_prompt if host is None else host
    # Read once: a changed text would cost the provider's cache, and the agent itself may write the file.
    of_project = cache(lambda: _of_project(settings.workspace) if settings.agents_md == "on" else "")

    def text(state: AgentState) -> str:
        own = said(state) if callable(said) else said
        if isinstance(own, SystemMessage):
            own = str(own.text)
        if not isinstance(own, str):
            raise SettingsError(f"{_TAKES}; the function returned {type(own).__name__}.")
        return "\n\n".join(
            filter(None, (own.strip(), of_project(), _surroundings(settings.workspace, today())))
        )

    return text


def _surroundings(workspace: Path, today: date) -> str:
    """Return what a model cannot know and asks for; behind all that stays the same from day to day."""
    folder = one_line(str(workspace.resolve()))
    return f"Today is {today:%Y-%m-%d}. Working folder: {folder} ({platform.system()})."


def _of_project(workspace: Path) -> str:
    try:
        text = read_beneath(workspace, AGENTS_MD, _MAX_FILE, follow=False).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        logger.warning("AGENTS.md not read", extra={"cause": str(error)})
        return ""
    return f"# The project's instructions, of its AGENTS.md\n{cut(text.strip(), _MAX_SHOWN)}"
