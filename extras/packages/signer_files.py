"""The two files that say whose signatures count: allowed signers, and keys that were revoked.

They are believed only as the list of trust is: of this user or of root, written by nobody else, and in no
workspace. A list of revoked keys that is named and cannot be read revokes everything, rather than nothing.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

from skills_agent.graph.places import user_config_folder
from skills_agent.graph.settings import Settings
from skills_agent.packages.errors import PackageError
from skills_agent.packages.signers import AllowedSigners, parse_key, parse_signers
from skills_agent.packages.sshsig import SignatureFormatError
from skills_agent.skills.errors import DetailedError
from skills_agent.skills.policy.trust import read_own_file

MAX_FILE: Final = 1_000_000
"""Bytes of either."""
KRL_MAGIC: Final = b"SSHKRL\n\0"
"""How a list begins that `ssh-keygen -k` made (PROTOCOL.krl)."""


class SignerFileError(DetailedError, PackageError):
    """A file of signers that cannot be used: no signature counts then."""

    code = "signers-unusable"
    sentence = "No signature counts: {file} cannot be used, because {reason}."
    file: Path
    reason: str


class RevokedKeys(NamedTuple):
    """What a file of revoked keys says."""

    keys: frozenset[bytes] = frozenset()
    krl: bytes = b""
    """A list that `ssh-keygen -k` made, which that program alone reads; empty for none."""


@dataclass(frozen=True)
class SignerFiles:
    """Where the files are. They are read anew each time: another process may change them."""

    allowed: Path
    """One that is not there allows nobody."""
    revoked: Path | None = None
    """One that is named has to be there."""
    usual_revoked: Path | None = None
    """Where nothing is named: a file that counts as soon as it is there."""
    closed: tuple[Path, ...] = ()
    """Folders, links resolved, that came from somebody else: files in them are not believed."""
    own: tuple[Path, ...] = field(default=())
    """Folders, links resolved, that are believed even there."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return where the files are: nothing in the workspace counts that is not the user's own."""
        folder = user_config_folder(settings)
        return cls(
            settings.allowed_signers or folder / "allowed_signers",
            settings.revoked_signers,
            folder / "revoked_signers",
            closed=(Path(os.path.realpath(settings.workspace)),),
            own=(Path(os.path.realpath(folder)),),
        )

    def signers(self) -> AllowedSigners:
        """Return who may sign. Raises SignerFileError."""
        try:
            return parse_signers(self._read(self.allowed).decode())
        except FileNotFoundError:
            return AllowedSigners()
        except UnicodeDecodeError as error:
            raise SignerFileError(self.allowed, "it is no text") from error

    def revoked_keys(self) -> RevokedKeys:
        """Return which keys count no more. Raises SignerFileError."""
        file = self.revoked or self.usual_revoked
        if file is None or (file is self.usual_revoked and not os.path.lexists(file)):
            return RevokedKeys()
        try:
            raw = self._read(file)
            if raw.startswith(KRL_MAGIC):
                return RevokedKeys(krl=raw)
            lines = [each.strip() for each in raw.decode().split("\n")]
            return RevokedKeys(frozenset(parse_key(each) for each in lines if each and each[0] != "#"))
        except FileNotFoundError as error:
            raise SignerFileError(file, "it is not there; make an empty one") from error
        except UnicodeDecodeError as error:
            raise SignerFileError(file, "it is no text, and no list of ssh-keygen -k") from error
        except SignatureFormatError as error:
            raise SignerFileError(file, f"it has a line that is no public key: {error}") from error

    def _read(self, file: Path) -> bytes:
        """Read a file of this user or of root. Raises FileNotFoundError and SignerFileError."""
        real = Path(os.path.realpath(file))
        is_believed = any(real.is_relative_to(each) for each in self.own)
        if not is_believed and (
            folder := next((each for each in self.closed if real.is_relative_to(each)), None)
        ):
            raise SignerFileError(file, f"it is in {folder}, which may have come from somebody else")
        try:
            raw = read_own_file(file, MAX_FILE + 1, or_root=True)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SignerFileError(file, error.strerror or str(error)) from error
        if len(raw) > MAX_FILE:
            raise SignerFileError(file, f"it has more than {MAX_FILE:,} bytes")
        return raw
