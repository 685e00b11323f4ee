"""Signatures by the package `cryptography`, for machines without ssh-keygen: Ed25519, ECDSA and RSA."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skills_agent.skills.packages.signatures import SigningError
from skills_agent.skills.packages.signers import parse_key
from skills_agent.skills.packages.sshsig import (
    SignatureFormatError,
    SshSignature,
    check_key,
    read_strings,
    string,
)

_SHORTEST_RSA: Final = 1024
"""Bits; ssh-keygen takes no shorter ones, either."""


@dataclass(frozen=True)
class Library:
    """Makes and proves signatures with the package `cryptography`."""

    def proves(self, message: bytes, signature: SshSignature) -> bool:
        return _is_signed(signature, message)

    def is_in(self, krl: bytes, key: bytes) -> bool:
        del krl, key
        reason = "the list of revoked keys is one of ssh-keygen -k, which ssh-keygen alone reads: install it"
        raise SigningError("A signature", "verified", reason)

    def sign(self, message: bytes, key: Path, namespace: str) -> str:
        serialization = _cryptography("It", f"signed with {key}")
        try:
            private = serialization.load_ssh_private_key(key.read_bytes(), password=None)
            public: bytes = private.public_key().public_bytes(
                serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
            )
            unsigned = SshSignature(parse_key(public.decode()), namespace, "sha512", b"")
            return unsigned._replace(signature=_signature(private, unsigned.signed(message))).armour()
        except (OSError, ValueError, TypeError) as error:  # a passphrase is asked for by a TypeError
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise SigningError("It", f"signed with {key}", reason.rstrip(".")) from error


def _signature(private: Any, signed: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415

    if isinstance(private, Ed25519PrivateKey):
        return string(b"ssh-ed25519") + string(private.sign(signed))
    if isinstance(private, RSAPrivateKey):
        return string(b"rsa-sha2-512") + string(private.sign(signed, padding.PKCS1v15(), hashes.SHA512()))
    raise ValueError("without ssh-keygen only keys of Ed25519 and RSA sign")


def _is_signed(parsed: SshSignature, message: bytes) -> bool:
    """Return whether the key of a signature has signed a message. Raises SigningError for unknown keys."""
    _cryptography("A signature", "verified")
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec, padding, utils  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey  # noqa: PLC0415

    signed = parsed.signed(message)
    try:
        if check_key(parsed.key).startswith("sk-"):
            raise SigningError("A signature", "verified", "keys on tokens need ssh-keygen")
        key = _public_key(parsed.key)
        kind, signature = read_strings(parsed.signature, 2)
        if isinstance(key, Ed25519PublicKey) and kind == b"ssh-ed25519":
            key.verify(signature, signed)
        elif isinstance(key, RSAPublicKey) and key.key_size < _SHORTEST_RSA:
            return False
        elif isinstance(key, RSAPublicKey) and kind in {b"rsa-sha2-512", b"rsa-sha2-256"}:
            of_rsa = hashes.SHA512() if kind.endswith(b"512") else hashes.SHA256()
            key.verify(signature, signed, padding.PKCS1v15(), of_rsa)
        elif isinstance(key, ec.EllipticCurvePublicKey) and kind == check_key(parsed.key).encode():
            r, s = (int.from_bytes(each, "big") for each in read_strings(signature, 2))
            bits = key.curve.key_size
            algorithm = (
                hashes.SHA256() if bits <= 256 else hashes.SHA384() if bits <= 384 else hashes.SHA512()
            )
            key.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(algorithm))
        else:
            return False
    except (InvalidSignature, SignatureFormatError):
        return False
    except (ValueError, UnsupportedAlgorithm) as error:
        reason = "keys of this kind need ssh-keygen"
        raise SigningError("A signature", "verified", reason) from error
    return True


def _public_key(key: bytes) -> Any:
    serialization = _cryptography("A signature", "verified")
    return serialization.load_ssh_public_key(check_key(key).encode() + b" " + base64.b64encode(key))


def _cryptography(what: str, done: str) -> Any:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra
    except ImportError as error:
        reason = (
            "neither ssh-keygen (of OpenSSH) nor the package cryptography is here: "
            "pip install 'skills-agent[signing]'"
        )
        raise SigningError(what, done, reason) from error
    return serialization
