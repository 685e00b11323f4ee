"""Chat models: by name from a provider, offline by rules, scripted for tests."""

from skills_agent.graph.models.errors import ModelCallError, ModelError, calling, explain
from skills_agent.graph.models.offline.model import OfflineChatModel
from skills_agent.graph.models.provider import default_model, resolve_model
from skills_agent.graph.models.scripted import ScriptedChatModel

__all__ = [
    "ModelCallError",
    "ModelError",
    "OfflineChatModel",
    "ScriptedChatModel",
    "calling",
    "default_model",
    "explain",
    "resolve_model",
]
