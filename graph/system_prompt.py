"""What the operator adds to the agent's instructions: a text, and the workspace's AGENTS.md."""

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from skills_agent.graph.settings import Settings
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.text import cut
from skills_agent.state.schema import AgentState

logger = logging.getLogger(__name__)

SystemPrompt: TypeAlias = str | Callable[[AgentState], str]
"""A text, or what makes it of the state: the same state must give the same text, for the provider's cache."""

AGENTS_MD: Final = "AGENTS.md"
_MAX_FILE: Final = 1 << 20
_MAX_SHOWN: Final = 32_000
"""Bytes of the file, and characters of it that are shown."""


def system_prompt_of(settings: Settings, host: SystemPrompt | None) -> Callable[[AgentState], str]:
    """Return what makes the text; a host's takes the place of the setting."""
    said = settings.system_prompt if host is None else host
    # Read once: a changed text would cost the provider's cache, and the agent itself may write the file.
    of_project = cache(lambda: _of_project(settings.workspace) if settings.agents_md == "on" else "")

    def text(state: AgentState) -> str:
        own = said if isinstance(said, str) else said(state)
        return "\n\n".join(filter(None, (own.strip(), of_project())))

    return text


def _of_project(workspace: Path) -> str:
    try:
        text = read_beneath(workspace, AGENTS_MD, _MAX_FILE, follow=False).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        logger.warning("AGENTS.md not read", extra={"cause": str(error)})
        return ""
    return f"# The project's instructions, of its AGENTS.md\n{cut(text.strip(), _MAX_SHOWN)}"
