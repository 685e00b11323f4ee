"""SSH signatures as bytes: the format that `ssh-keygen -Y sign` writes (PROTOCOL.sshsig of OpenSSH).

    -----BEGIN SSH SIGNATURE-----
    base64 of: "SSHSIG", uint32 1, then as strings: key, namespace, reserved, hash, signature
    -----END SSH SIGNATURE-----

What a key signs is "SSHSIG" and, as strings, namespace, reserved, hash, and the digest of the message. The
namespace keeps a signature of one purpose (git, files) from counting for another.
"""

import base64
import binascii
import hashlib
import re
import struct
from typing import Final, NamedTuple

MAGIC: Final = b"SSHSIG"
VERSION: Final = 1
MAX_ARMOUR: Final = 20_000
"""Characters: a signature of RSA with 16,384 bits has 6,000."""
HASHES: Final = ("sha512", "sha256")
_WIDTH: Final = 70
_ARMOUR: Final = re.compile(
    r"\s*-----BEGIN SSH SIGNATURE-----\s+([A-Za-z0-9+/=\s]+)-----END SSH SIGNATURE-----\s*"
)


class SignatureFormatError(ValueError):
    """Text or bytes that are no SSH signature, or no SSH key."""


class SshSignature(NamedTuple):
    """A signature, taken apart; nothing is verified."""

    key: bytes
    """The public key in its wire format: its type is the first string in it."""
    namespace: str
    hash: str
    """`sha512` or `sha256`."""
    signature: bytes
    """Its kind (a string), and the signature (a string)."""

    def signed(self, message: bytes) -> bytes:
        """Return the bytes that the key has signed, for a message."""
        digest = hashlib.new(self.hash, message).digest()
        return MAGIC + b"".join(map(string, (self.namespace.encode(), b"", self.hash.encode(), digest)))

    def armour(self) -> str:
        """Return the signature as ssh-keygen writes it."""
        fields = (self.key, self.namespace.encode(), b"", self.hash.encode(), self.signature)
        blob = MAGIC + struct.pack(">I", VERSION) + b"".join(map(string, fields))
        text = base64.b64encode(blob).decode()
        lines = [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)]
        return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])


def parse_signature(text: str) -> SshSignature:
    """Read an armoured signature. Raises SignatureFormatError."""
    match = _ARMOUR.fullmatch(text) if len(text) <= MAX_ARMOUR else None
    if match is None:
        raise SignatureFormatError("it is no SSH signature")
    try:
        blob = base64.b64decode("".join(match[1].split()), validate=True)
    except binascii.Error as error:
        raise SignatureFormatError("its base64 is broken") from error
    head = len(MAGIC) + 4
    if blob[:head] != MAGIC + struct.pack(">I", VERSION):
        raise SignatureFormatError("it is of another version")
    key, namespace, _reserved, name, signature = read_strings(blob[head:], 5)
    if name.decode("ascii", "replace") not in HASHES:
        raise SignatureFormatError("its hash is neither sha512 nor sha256")
    return SshSignature(key, namespace.decode("utf-8", "replace"), name.decode(), signature)


def string(content: bytes) -> bytes:
    """Return a `string` of the SSH protocol (RFC 4251, 5)."""
    return struct.pack(">I", len(content)) + content


def read_strings(blob: bytes, number: int) -> list[bytes]:
    """Read just so many strings of the SSH protocol. Raises SignatureFormatError."""
    strings, at = [], 0
    for _ in range(number):
        size = int.from_bytes(blob[at : at + 4], "big") if at + 4 <= len(blob) else -1
        at += 4
        if size < 0 or at + size > len(blob):
            raise SignatureFormatError("it is cut off")
        strings.append(blob[at : at + size])
        at += size
    if at != len(blob):
        raise SignatureFormatError("it has more than a signature")
    return strings


def fingerprint(key: bytes) -> str:
    """Return what ssh-keygen -l shows of a public key in its wire format: `SHA256:...`."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
