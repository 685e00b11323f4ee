"""Names of folders and files for threads, whose ids clients choose."""

import hashlib
import re
from functools import lru_cache

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@lru_cache(1024)
def folder_name(thread: str) -> str:
    """Return a name for a thread's folder; a client chooses the thread's, so it may be any text.

    The digest keeps names apart that differ in case only, where a file system does not.
    """
    digest = hashlib.sha256(thread.encode(errors="replace")).hexdigest()
    return f"{thread}.{digest[:8]}" if _PLAIN.fullmatch(thread) else digest
