"""What a signature is worth here, and that `ssh-keygen -Y verify` takes what is good."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from extras.packages.tests.signers import KEYGEN, make_key, needs_keygen
from skills_agent.packages.errors import SigningError
from skills_agent.packages.signatures import Signatures
from skills_agent.packages.signer_files import SignerFileError, SignerFiles
from skills_agent.packages.ssh_keygen import SshKeygen

MESSAGE = b"the statement of a skill"
NAMESPACE = "agent-skills"

pytestmark = [pytest.mark.slow, needs_keygen]


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name, kind in (("ed25519", "ed25519"), ("ecdsa", "ecdsa"), ("rsa", "rsa"), ("other", "ed25519")):
        make_key(folder / name, kind)
    return folder


@pytest.fixture
def signers(tmp_path: Path, keys: Path) -> Path:
    file = tmp_path / "allowed_signers"
    names = ("ed25519", "ecdsa", "rsa")
    file.write_text("".join(line(keys, each) for each in names))
    return file


@pytest.fixture
def signatures(signers: Path, tmp_path: Path) -> Signatures:
    revoked = tmp_path / "revoked"
    revoked.touch()
    return Signatures(SshKeygen(KEYGEN), SignerFiles(signers, revoked))


def line(keys: Path, name: str, options: str = f'namespaces="{NAMESPACE}"') -> str:
    kind, key, _ = (keys / f"{name}.pub").read_text().split()
    return f"{name}@example.org {options} {kind} {key}\n"


@pytest.mark.parametrize("key", ["ed25519", "ecdsa", "rsa"])
def test_a_signature_of_an_allowed_signer_is_good(signatures: Signatures, keys: Path, key: str) -> None:
    made = signatures.sign(MESSAGE, keys / key)
    check = signatures.check(MESSAGE, made)
    assert (check.state, check.signer) == ("good", f"{key}@example.org")
    assert check.fingerprint.startswith("SHA256:")


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
        f'valid-before="{now - timedelta(days=2):%Y%m%d%H%M%SZ}"': "ended",
        f'valid-after="{now + timedelta(days=2):%Y%m%d%H%M%SZ}"': "ended",
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
    assert (check.state, check.reason) == ("ended", "the key of ed25519@example.org is revoked")


def test_an_authority_of_certificates_vouches_for_no_signature_of_its_own_key(
    signatures: Signatures, keys: Path, signers: Path
) -> None:
    signers.write_text(line(keys, "ed25519", "cert-authority"))
    assert signatures.check(MESSAGE, signatures.sign(MESSAGE, keys / "ed25519")).state == "unknown"


def test_one_of_several_names_is_the_signers(
    signatures: Signatures, keys: Path, signers: Path, tmp_path: Path
) -> None:
    signers.write_text(f"alice@example.org,bob@example.org,{line(keys, 'ed25519')}")
    made = signatures.sign(MESSAGE, keys / "ed25519")
    assert signatures.check(MESSAGE, made)[:2] == ("good", "alice@example.org")
    assert is_verified(tmp_path, signers, "alice@example.org", MESSAGE, made)


@pytest.mark.parametrize(
    "options",
    [
        'namespaces="*,!agent-skills"',
        'namespaces=""',
        "namespaces",
        'namespaces="git",namespaces="agent-skills"',
        'namespaces="agent-[s]kills"',
        'namespaces="agent-skills" valid-before="20990101"',
        'namespaces="agent-skills",',
        'verify-required,namespaces="agent-skills"',
        'valid-before="00010101"',
    ],
)
def test_what_ssh_keygen_would_not_take_vouches_for_nobody(
    signatures: Signatures, keys: Path, signers: Path, tmp_path: Path, options: str
) -> None:
    signers.write_text(line(keys, "ed25519", options))
    made = signatures.sign(MESSAGE, keys / "ed25519")
    assert signatures.check(MESSAGE, made).state != "good"
    if not options.endswith(","):  # OpenSSH is more lenient here
        assert not is_verified(tmp_path, signers, "ed25519@example.org", MESSAGE, made)


def test_a_certificate_is_no_key(signatures: Signatures, keys: Path, signers: Path, tmp_path: Path) -> None:
    for name in ("ed25519", "ed25519.pub"):
        (tmp_path / name).write_bytes((keys / name).read_bytes())
    (tmp_path / "ed25519").chmod(0o600)
    by = [str(KEYGEN), "-q", "-s", str(keys / "other"), "-I", "me", "-n", "me", str(tmp_path / "ed25519.pub")]
    subprocess.run(by, check=True)
    certificate = tmp_path / "ed25519-cert.pub"
    signers.write_text(line(keys, "other", "cert-authority") + f"me {certificate.read_text()}")
    made = signatures.sign(MESSAGE, certificate)
    check = signatures.check(MESSAGE, made)
    assert (check.state, check.reason) == ("bad", "it is of a certificate, and only keys count here")


def test_a_list_of_revoked_keys_that_is_not_there_revokes_all(
    signatures: Signatures, keys: Path, tmp_path: Path
) -> None:
    made = signatures.sign(MESSAGE, keys / "ed25519")
    (tmp_path / "revoked").unlink()
    with pytest.raises(SignerFileError, match=r"revoked cannot be used, because it is not there"):
        signatures.check(MESSAGE, made)


def test_a_list_of_revoked_keys_with_a_line_that_is_no_key_revokes_all(
    signatures: Signatures, keys: Path, tmp_path: Path
) -> None:
    made = signatures.sign(MESSAGE, keys / "ed25519")
    (tmp_path / "revoked").write_text("ssh-ed25519 \N{SNOWMAN}\n")
    with pytest.raises(SignerFileError, match="a line that is no public key"):
        signatures.check(MESSAGE, made)


def test_a_list_of_ssh_keygen_revokes_or_is_said_not_to_be_read(
    signatures: Signatures, keys: Path, tmp_path: Path
) -> None:
    made = {name: signatures.sign(MESSAGE, keys / name) for name in ("ed25519", "rsa")}
    krl = tmp_path / "revoked"
    subprocess.run([str(KEYGEN), "-q", "-k", "-f", str(krl), str(keys / "ed25519.pub")], check=True)
    assert {name: signatures.check(MESSAGE, each).state for name, each in made.items()} == {
        "ed25519": "ended",
        "rsa": "good",
    }
    krl.write_bytes(krl.read_bytes()[:30])
    with pytest.raises(SigningError, match="the list of revoked keys"):
        signatures.check(MESSAGE, made["rsa"])


def test_a_file_of_signers_that_others_may_write_is_not_believed(
    signatures: Signatures, keys: Path, signers: Path
) -> None:
    made = signatures.sign(MESSAGE, keys / "ed25519")
    signers.chmod(0o666)
    with pytest.raises(SignerFileError, match="other users can write it"):
        signatures.check(MESSAGE, made)


def test_a_file_of_signers_in_a_workspace_is_not_believed(
    signatures: Signatures, keys: Path, signers: Path, tmp_path: Path
) -> None:
    made = signatures.sign(MESSAGE, keys / "ed25519")
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(signers)
    for file in (signers, link):
        brought = replace(signatures, files=SignerFiles(file, closed=(tmp_path.resolve(),)))
        with pytest.raises(SignerFileError, match="may have come from somebody else"):
            brought.check(MESSAGE, made)


def test_a_large_message_is_verified(signatures: Signatures, keys: Path) -> None:
    message = bytes(20_000_000)
    made = signatures.sign(message, keys / "ed25519")
    assert signatures.check(message, made).state == "good"
    assert signatures.check(message[:-1], made).state == "bad"


def is_verified(folder: Path, signers: Path, who: str, message: bytes, made: str) -> bool:
    """Return whether ssh-keygen alone verifies a signature."""
    file = folder / "made.sig"
    file.write_text(made)
    command = [str(KEYGEN), "-Y", "verify", "-f", str(signers), "-I", who, "-n", NAMESPACE, "-s", str(file)]
    return not subprocess.run(command, input=message, capture_output=True, check=False).returncode
