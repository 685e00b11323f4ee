"""The offline model: rules that do what a language model would do with a skill, as far as rules can."""

from skills_agent.graph.models.offline.model import OfflineChatModel

__all__ = ["OfflineChatModel"]
