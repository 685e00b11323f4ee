"""Signatures by the package `cryptography`, for machines without ssh-keygen: Ed25519, ECDSA and RSA."""

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skills_agent.skills.packages.signatures import (
    NAMESPACE,
    SignatureCheck,
    SigningError,
    check_revoked,
    read_signers,
    standing_of,
    why_bad,
    why_unknown,
)
from skills_agent.skills.packages.signers import parse_key, read_keys
from skills_agent.skills.packages.sshsig import (
    SignatureFormatError,
    SshSignature,
    fingerprint,
    parse_signature,
    read_strings,
    string,
)


@dataclass(frozen=True)
class Library:
    """Checks with the package `cryptography`."""

    signers: Path
    revoked: Path | None = None
    """Public keys, one in a line; a list that ssh-keygen -k made cannot be read."""

    def check(self, message: bytes, signature: str, namespace: str = NAMESPACE) -> SignatureCheck:
        try:
            parsed = parse_signature(signature)
        except SignatureFormatError as error:
            return SignatureCheck("bad", reason=str(error))
        mark = fingerprint(parsed.key)
        if parsed.namespace != namespace or not _is_signed(parsed, message):
            return SignatureCheck("bad", "", mark, why_bad(parsed, namespace))
        allowed = read_signers(self.signers)
        check_revoked(self.revoked)
        signer = allowed.of_key(parsed.key, namespace, datetime.now(UTC))
        if signer is None:
            return SignatureCheck("unknown", "", mark, why_unknown(allowed, parsed.key, namespace))
        if self._is_revoked(parsed.key):
            return SignatureCheck("unknown", "", mark, f"the key of {signer.name} is revoked")
        return SignatureCheck("good", ",".join(signer.principals), mark)

    def standing(self, mark: str, namespace: str = NAMESPACE) -> SignatureCheck:
        check_revoked(self.revoked)
        return standing_of(read_signers(self.signers), mark, namespace, self._is_revoked)

    def _is_revoked(self, key: bytes) -> bool:
        try:
            return self.revoked is not None and key in read_keys(self.revoked)
        except (OSError, ValueError) as error:
            reason = f"{self.revoked} cannot be read without ssh-keygen"
            raise SigningError("A signature", "verified", reason) from error

    def sign(self, message: bytes, key: Path, namespace: str = NAMESPACE) -> str:
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
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec, padding, utils  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey  # noqa: PLC0415

    signed = parsed.signed(message)
    try:
        key = _public_key(parsed.key)
        kind, signature = read_strings(parsed.signature, 2)
        if isinstance(key, Ed25519PublicKey) and kind == b"ssh-ed25519":
            key.verify(signature, signed)
        elif isinstance(key, RSAPublicKey) and kind in {b"rsa-sha2-512", b"rsa-sha2-256"}:
            of_rsa = hashes.SHA512() if kind.endswith(b"512") else hashes.SHA256()
            key.verify(signature, signed, padding.PKCS1v15(), of_rsa)
        elif isinstance(key, ec.EllipticCurvePublicKey) and kind == parsed.key[4 : 4 + len(kind)]:
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
    kind = key[4 : 4 + int.from_bytes(key[:4], "big")]
    return serialization.load_ssh_public_key(kind + b" " + base64.b64encode(key))


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
