"""The skills of every caller: those that all share, and a caller's own from the store."""

from collections import OrderedDict
from threading import Lock
from typing import Final

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources.store import SkillStore, StoreSource, user_namespace

CALLER: Final = "caller"
"""Label of the source that holds a caller's own skills: the strongest of all."""
_CALLERS_KEPT: Final = 64


class Library:
    """One registry that callers share, and one for each caller who has skills in the store.

    A caller's own skills are those beneath the namespace `("skills", <user id>)`; see
    `skills.sources.store.publish`. What they may do is what any untrusted source may.
    """

    def __init__(self, shared: Registry) -> None:
        """Take the registry over the operator's sources."""
        self.shared = shared
        self._own: OrderedDict[tuple[int, str], Registry] = OrderedDict()
        self._lock = Lock()

    def of(self, user_id: str | None, store: SkillStore | None, *, look: bool = False) -> Registry:
        """Return the registry for a caller; the shared one where there is no user, no store or no own skill.

        The store is asked once for each caller, and again where `look` is set (at the beginning of a
        turn). Raises SourceAddressError for a user id that cannot be one.
        """
        if not user_id or store is None:
            return self.shared
        key = (id(store), user_id)
        with self._lock:
            known = self._own.get(key)
        if known is not None and not look:
            return known
        own = StoreSource(store, user_namespace(user_id), label=CALLER)
        if not own.scan().found:
            registry = self.shared
        elif known is None or known is self.shared:
            registry = self.shared.with_source(own)
        else:
            registry = known
        with self._lock:
            self._own[key] = registry
            self._own.move_to_end(key)
            while len(self._own) > _CALLERS_KEPT:
                self._own.popitem(last=False)
        return registry

    def has(self, user_id: str | None, store: SkillStore | None, digest: str) -> bool:
        """Tell whether a caller's registry and its catalog of that digest are in this process."""
        if not user_id or store is None:
            return self.shared.get(digest) is not None
        with self._lock:
            registry = self._own.get((id(store), user_id))
        return registry is not None and registry.get(digest) is not None
