"""SSH signatures as bytes: the format that `ssh-keygen -Y sign` writes (PROTOCOL.sshsig of OpenSSH).

    -----BEGIN SSH SIGNATURE-----
    base64 of: "SSHSIG", uint32 1, then as strings: key, namespace, reserved, hash, signature
    -----END SSH SIGNATURE-----

The namespace keeps a signature of one purpose (git, files) from counting for another. Everything else in it
is for ssh-keygen.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

_HEAD: Final = b"SSHSIG\0\0\0\1"
"""With the version, 1."""
MAX_ARMOUR: Final = 20_000
"""Characters: a signature of RSA with 16,384 bits has 6,000."""
KEYS: Final[Mapping[str, int]] = {
    "ssh-ed25519": 2,
    "ssh-rsa": 3,
    "ecdsa-sha2-nistp256": 3,
    "ecdsa-sha2-nistp384": 3,
    "ecdsa-sha2-nistp521": 3,
    "sk-ssh-ed25519@openssh.com": 3,
    "sk-ecdsa-sha2-nistp256@openssh.com": 4,
}
"""The kinds of keys that may sign, with how many strings one has. A certificate is none of them."""
_WIDTH: Final = 70
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----\n"
_END: Final = "\n-----END SSH SIGNATURE-----"


class SignatureFormatError(ValueError):
    """Text or bytes that are no SSH signature, or no SSH key."""


class SshSignature(NamedTuple):
    """A signature, taken apart; nothing is verified."""

    key: bytes
    """The public key in its wire format: its type is the first string in it."""
    namespace: str
    blob: bytes
    """All of it, without armour."""

    def armour(self) -> str:
        """Return the signature as ssh-keygen writes it."""
        text = base64.b64encode(self.blob).decode()
        lines = [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)]
        return _BEGIN + "\n".join(lines) + f"{_END}\n"


def parse_signature(text: str) -> SshSignature:
    """Read an armoured signature. Raises SignatureFormatError."""
    body = text.replace("\r\n", "\n").strip() if len(text) <= MAX_ARMOUR and text.isascii() else ""
    if not (body.startswith(_BEGIN) and body.endswith(_END)):
        raise SignatureFormatError("it is no SSH signature")
    try:
        blob = base64.b64decode("".join(body[len(_BEGIN) : -len(_END)].split()), validate=True)
    except binascii.Error as error:
        raise SignatureFormatError("its base64 is broken") from error
    if not blob.startswith(_HEAD):
        raise SignatureFormatError("it is of another version")
    key, namespace, *_ = read_strings(blob[len(_HEAD) :], 5)
    check_key(key)
    return SshSignature(key, namespace.decode("utf-8", "replace"), blob)


def check_key(key: bytes) -> str:
    """Return the kind of a public key in its wire format. Raises SignatureFormatError for none of `KEYS`."""
    kind = key[4 : 4 + int.from_bytes(key[:4], "big")].decode("ascii", "replace")
    if "-cert-" in kind:
        raise SignatureFormatError("it is of a certificate, and only keys count here")
    if kind not in KEYS:
        raise SignatureFormatError("it is of a kind of key that is unknown here")
    read_strings(key, KEYS[kind])
    return kind


def read_strings(blob: bytes, number: int) -> list[bytes]:
    """Read just so many strings of the SSH protocol (RFC 4251, 5). Raises SignatureFormatError."""
    strings, at = [], 0
    for _ in range(number):
        size = int.from_bytes(blob[at : at + 4], "big") if at + 4 <= len(blob) else -1
        at += 4
        if size < 0 or at + size > len(blob):
            raise SignatureFormatError("it is cut off")
        strings.append(blob[at : at + size])
        at += size
    if at != len(blob):
        raise SignatureFormatError("something is behind its end")
    return strings


def fingerprint(key: bytes) -> str:
    """Return what ssh-keygen -l shows of a public key in its wire format: `SHA256:...`."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
