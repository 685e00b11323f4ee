"""Authentication codes: what a client can write counts only with a code under the operator's key."""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Codes:
    """Makes and checks codes: HMAC-SHA256 (RFC 2104) over canonical JSON."""

    key: bytes = field(repr=False)

    def code(self, kind: str, thread: str, facts: Mapping[str, Any]) -> str:
        """Return the code of some facts of one kind in one thread: 22 characters of base64url.

        Half of the HMAC, as RFC 2104 (section 5) permits: every checkpoint stores codes.
        """
        text = json.dumps([kind, thread, facts], sort_keys=True, separators=(",", ":"), default=str)
        whole = hmac.digest(self.key, text.encode(), "sha256")
        return urlsafe_b64encode(whole[:_BYTES]).rstrip(b"=").decode()

    def confirms(self, code: object, kind: str, thread: str, facts: Mapping[str, Any]) -> bool:
        """Return whether a code is that of these facts, made under this key."""
        try:
            is_text = isinstance(code, str) and code.isascii()
            return is_text and hmac.compare_digest(str(code), self.code(kind, thread, facts))
        except (TypeError, ValueError, RecursionError):  # what a client wrote may be no JSON
            return False
