"""The skills of each caller: those that all share, and their own in a store."""

from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import Source

CALLER: Final = "caller"
"""Label of the source that holds a caller's own skills: the strongest of all."""
_CALLERS_KEPT: Final = 64

OwnSource = Callable[[Any, str, str], Source]
"""Makes the source of a caller's own skills, of a store, a user id and a label."""


class Library:
    """One registry that callers share, and one for each caller who has skills in the store.

    A caller's own skills are those beneath the namespace `("skills", <user id>)`; see
    `skills_agent.sources.store.publish`. What they may do is what any untrusted source may.
    """

    def __init__(self, shared: Registry, own_source: OwnSource | None = None) -> None:
        """Without `own_source` a caller has no skills of their own."""
        self.shared = shared
        self._own_source = own_source
        self._own: dict[tuple[int, str], Registry] = {}
        self._lock = Lock()

    def of(self, user_id: str | None, store: Any, *, look: bool = False) -> Registry:
        """Return the registry for a caller; the shared one where there is no user, no store or no own skill.

        The store is asked once for each caller, and again where `look` is set (at the beginning of a
        turn). Raises SkillError for a user id that cannot be one.
        """
        if not user_id or store is None or self._own_source is None:
            return self.shared
        key = (id(store), user_id)
        known = self._own.get(key)
        if known is not None and not look:
            return known
        own = self._own_source(store, user_id, CALLER)
        registry = self.shared
        if own.scan().skills:
            registry = known if known and known is not self.shared else self.shared.with_source(own)
        with self._lock:
            self._own.pop(key, None)
            self._own[key] = registry
            if len(self._own) > _CALLERS_KEPT:
                del self._own[next(iter(self._own))]
        return registry
