"""What every implementation of signatures does: the same signature is good, unknown or bad by each."""

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skills_agent.skills.packages.signatures import Signatures
from skills_agent.skills.packages.ssh_keygen import SshKeygen
from skills_agent.skills.packages.ssh_library import Library

KEYGEN = shutil.which("ssh-keygen")
MESSAGE = b"the statement of a skill"
NAMESPACE = "agent-skills"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KEYGEN is None, reason="ssh-keygen (OpenSSH) makes the keys of these tests"),
]


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name, kind in (("ed25519", "ed25519"), ("ecdsa", "ecdsa"), ("rsa", "rsa"), ("other", "ed25519")):
        command = [str(KEYGEN), "-q", "-t", kind, "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(command, check=True)
    return folder


@pytest.fixture
def signers(tmp_path: Path, keys: Path) -> Path:
    file = tmp_path / "allowed_signers"
    names = ("ed25519", "ecdsa", "rsa")
    file.write_text("".join(line(keys, each) for each in names))
    return file


@pytest.fixture(params=["ssh-keygen", "cryptography"])
def signatures(request: pytest.FixtureRequest, signers: Path, tmp_path: Path) -> Signatures:
    revoked = tmp_path / "revoked"
    revoked.touch()
    return (
        SshKeygen(str(KEYGEN), signers, revoked)
        if request.param == "ssh-keygen"
        else Library(signers, revoked)
    )


def line(keys: Path, name: str, options: str = f'namespaces="{NAMESPACE}"') -> str:
    kind, key, _ = (keys / f"{name}.pub").read_text().split()
    return f"{name}@example.org {options} {kind} {key}\n"


@pytest.mark.parametrize("key", ["ed25519", "ecdsa", "rsa"])
def test_a_signature_of_an_allowed_signer_is_good(signatures: Signatures, keys: Path, key: str) -> None:
    made = SshKeygen(str(KEYGEN), Path()).sign(MESSAGE, keys / key)
    check = signatures.check(MESSAGE, made)
    assert (check.state, check.signer) == ("good", f"{key}@example.org")
    assert check.fingerprint.startswith("SHA256:")


@pytest.mark.parametrize("key", ["ed25519", "rsa"])
def test_what_it_signs_ssh_keygen_takes(signatures: Signatures, keys: Path, key: str, signers: Path) -> None:
    made = signatures.sign(MESSAGE, keys / key)
    assert SshKeygen(str(KEYGEN), signers).check(MESSAGE, made).state == "good"


def test_a_changed_byte_is_bad(signatures: Signatures, keys: Path) -> None:
    made = signatures.sign(MESSAGE, keys / "ed25519")
    check = signatures.check(MESSAGE + b".", made)
    assert (check.state, check.reason) == (
        "bad",
        "it is not of these bytes: something was changed since it was made",
    )


def test_a_signature_for_another_purpose_is_bad(signatures: Signatures, keys: Path) -> None:
    made = signatures.sign(MESSAGE, keys / "ed25519", "git")
    check = signatures.check(MESSAGE, made)
    assert (check.state, check.reason) == ("bad", "it was made for 'git', and not for 'agent-skills'")


@pytest.mark.parametrize(
    "text", ["", "no signature", "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"]
)
def test_what_is_no_signature_is_bad(signatures: Signatures, text: str) -> None:
    assert signatures.check(MESSAGE, text).state == "bad"


def test_nobody_vouches_for_another_key(signatures: Signatures, keys: Path) -> None:
    made = signatures.sign(MESSAGE, keys / "other")
    check = signatures.check(MESSAGE, made)
    assert check.state == "unknown"
    assert check.reason.startswith("nobody here vouches for the key SHA256:")


def test_without_a_file_of_signers_nobody_is_known(signatures: Signatures, keys: Path, signers: Path) -> None:
    signers.unlink()
    assert signatures.check(MESSAGE, signatures.sign(MESSAGE, keys / "ed25519")).state == "unknown"


def test_a_key_counts_only_while_it_is_valid(signatures: Signatures, keys: Path, signers: Path) -> None:
    made = signatures.sign(MESSAGE, keys / "ed25519")
    now = datetime.now(UTC)
    times = {
        f'valid-before="{now - timedelta(days=2):%Y%m%d%H%M%SZ}"': "unknown",
        f'valid-after="{now + timedelta(days=2):%Y%m%d%H%M%SZ}"': "unknown",
        f'valid-before="{now + timedelta(days=2):%Y%m%d%H%M%SZ}"': "good",
    }
    for options, state in times.items():
        signers.write_text(line(keys, "ed25519", options))
        check = signatures.check(MESSAGE, made)
        assert check.state == state
        assert check.state == "good" or check.reason == "the key of ed25519@example.org is not valid today"


def test_a_key_that_may_sign_for_git_alone_does_not_count(
    signatures: Signatures, keys: Path, signers: Path
) -> None:
    signers.write_text(line(keys, "ed25519", 'namespaces="git,file"'))
    check = signatures.check(MESSAGE, signatures.sign(MESSAGE, keys / "ed25519"))
    assert (check.state, check.reason) == ("unknown", "ed25519@example.org may not sign for agent-skills")


def test_a_revoked_key_does_not_count(signatures: Signatures, keys: Path, tmp_path: Path) -> None:
    made = signatures.sign(MESSAGE, keys / "ed25519")
    assert signatures.check(MESSAGE, made).state == "good"
    (tmp_path / "revoked").write_text((keys / "ed25519.pub").read_text())
    check = signatures.check(MESSAGE, made)
    assert (check.state, check.reason) == ("unknown", "the key of ed25519@example.org is revoked")


def test_an_authority_of_certificates_vouches_for_no_signature_of_its_own_key(
    signatures: Signatures, keys: Path, signers: Path
) -> None:
    signers.write_text(line(keys, "ed25519", "cert-authority"))
    assert signatures.check(MESSAGE, signatures.sign(MESSAGE, keys / "ed25519")).state == "unknown"
