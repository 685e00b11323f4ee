"""What a signature is worth here: ssh-keygen says it, and only by files that are believed."""

import json
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extras.packages.tests.signers import KEYGEN, Signers, make_key, needs_keygen
from skills_agent.packages.errors import PackageError
from skills_agent.packages.manifest import MANIFEST_FILE, statement
from skills_agent.packages.packing import manifest_of
from skills_agent.packages.signatures import Signatures
from tests.agents import write_skill

pytestmark = needs_keygen
MESSAGE = b"the statement of a skill"
NOW = datetime.now(UTC)
EARLIER, LATER = (f"{NOW + timedelta(days=days):%Y%m%d%H%M%SZ}" for days in (-2, 2))


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers(tmp_path_factory.mktemp("people"))


@pytest.fixture
def signers(people: Signers) -> Signers:
    """Alice may sign, and no key is revoked."""
    people.revoked.unlink(missing_ok=True)
    people.allow("alice")
    people.allowed.chmod(0o600)
    return people


@pytest.fixture(scope="module")
def made(people: Signers) -> str:
    return people.signatures.sign(MESSAGE, people.alice)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_signature_of_an_allowed_signer_is_good(signers: Signers, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path / kind, kind)
    signers.allowed.write_text(f"bob@example.org,me {key.with_name(f'{kind}.pub').read_text()}")
    check = signers.signatures.check(MESSAGE, signers.signatures.sign(MESSAGE, key))
    assert (check.state, check.signer) == ("good", "bob@example.org")
    listed = subprocess.run([str(KEYGEN), "-l", "-f", f"{key}.pub"], capture_output=True, check=True)
    assert check.fingerprint in listed.stdout.decode()


OPTIONS = {
    "over": f'valid-before="{EARLIER}"',
    "not yet": f'valid-after="{LATER}"',
    "for other uses": 'namespaces="git,file"',
    "of an authority": "cert-authority",
    "unknown": 'nobody-knows="x"',
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_line_lets_a_key_sign_as_ssh_keygen_reads_it(signers: Signers, made: str, options: str) -> None:
    signers.allow("alice", options="")
    good = signers.signatures.check(MESSAGE, made)
    assert (good.state, good.signer) == ("good", "alice")
    signers.allow("alice", options=options)
    check = signers.signatures.check(MESSAGE, made)
    assert (check.state, check.signer) == ("bad", "")
    assert "does not count today" in check.reason


def test_a_stranger_is_unknown(signers: Signers, made: str) -> None:
    signers.allow("mallory")
    check = signers.signatures.check(MESSAGE, made)
    assert (check.state, check.signer) == ("unknown", "")
    assert check.reason.startswith("nobody here vouches for the key SHA256:")
    signers.allowed.unlink()
    assert signers.signatures.check(MESSAGE, made).state == "unknown"


def test_a_signature_of_something_else_is_bad(signers: Signers, made: str, tmp_path: Path) -> None:
    assert signers.signatures.check(MESSAGE + b".", made).state == "bad"
    (tmp_path / "message").write_bytes(MESSAGE)
    command = [str(KEYGEN), "-Y", "sign", "-f", str(signers.alice), "-n", "git", str(tmp_path / "message")]
    subprocess.run(command, check=True, capture_output=True)
    check = signers.signatures.check(MESSAGE, (tmp_path / "message.sig").read_text())
    assert (check.state, "not for agent-skills" in check.reason) == ("bad", True)


@given(
    st.text()
    | st.binary().map(lambda raw: f"-----BEGIN SSH SIGNATURE-----\n{raw.hex()}\n-----END SSH SIGNATURE-----")
)
def test_any_text_is_a_bad_signature(text: str) -> None:
    nobody = Signatures(Path("/nowhere"), Path("/nowhere"), "/nowhere/ssh-keygen")
    assert nobody.check(MESSAGE, text).state == "bad"  # and the program is not even asked


def test_a_certificate_is_no_key(signers: Signers, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    by = [str(KEYGEN), "-q", "-s", str(signers.alice), "-I", "me", "-n", "me", f"{key}.pub"]
    subprocess.run(by, check=True)
    signers.allow("alice", options="cert-authority")
    check = signers.signatures.check(MESSAGE, signers.signatures.sign(MESSAGE, tmp_path / "key-cert.pub"))
    assert (check.state, check.reason) == ("bad", "it is no SSH signature by a key")


def test_a_revoked_key_does_not_count_whoever_it_is_of(signers: Signers, made: str) -> None:
    def state() -> str:
        return signers.signatures.check(MESSAGE, made).state

    for name, expected in (("mallory", "good"), ("alice", "bad")):
        signers.revoke(name)
        assert state() == expected
        public = signers.alice.with_name(f"{name}.pub")
        signers.revoked.unlink()
        subprocess.run([str(KEYGEN), "-q", "-k", "-f", str(signers.revoked), str(public)], check=True)
        assert state() == expected
    # A list that cannot be used revokes all.
    signers.revoked.write_bytes(signers.revoked.read_bytes()[:30])
    assert state() == "bad"
    signers.revoked.write_text(f"# mine\n\n{signers.public('mallory')}ssh-ed25519 \N{SNOWMAN}\n")
    with pytest.raises(PackageError, match="a line that is no public key"):
        state()
    signers.revoke("mallory", "alice")
    signers.allow("mallory")
    assert state() == "bad"


@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_file_of_signers_that_others_may_write_is_not_believed(
    signers: Signers, made: str, mode: int
) -> None:
    signers.allowed.chmod(mode)
    with pytest.raises(PackageError, match="other users can write it"):
        signers.signatures.check(MESSAGE, made)
    signers.allowed.chmod(0o600)
    with signers.allowed.open("a") as file:
        file.write("#" * 1_000_000)
    with pytest.raises(PackageError, match="more than 1,000,000 bytes"):
        signers.signatures.check(MESSAGE, made)


def test_a_file_of_signers_in_a_workspace_is_not_believed(
    signers: Signers, made: str, tmp_path: Path
) -> None:
    at_home = replace(signers.signatures, workspace=tmp_path)
    assert at_home.check(MESSAGE, made).state == "good"
    for file in (signers.allowed, signers.revoked):
        signers.revoke("mallory")
        brought = file.rename(tmp_path / file.name)
        file.symlink_to(brought)
        with pytest.raises(PackageError, match="may have come from somebody else"):
            at_home.check(MESSAGE, made)
        brought.replace(file)


class Decisions:
    """A signed skill, and what a process that runs on says of it."""

    def __init__(self, signers: Signers, place: Path) -> None:
        self.signers = signers
        self.folder = write_skill(place / "skills", "greet", "Greets. Use for greetings.")
        self.manifest = manifest_of(self.folder)
        self.sign()

    def sign(self, name: str = "greet", digest: str = "", key: str = "alice") -> None:
        """Write a manifest that is of the files, with a signature of a name and a digest."""
        message = statement(name, digest or self.manifest.digest)
        signature = self.signers.signatures.sign(message, self.signers.alice.with_name(key))
        said = {**json.loads(self.manifest.content()), "signature": signature}
        (self.folder / MANIFEST_FILE).write_text(json.dumps(said))

    def signer(self, name: str = "greet", digest: str = "") -> str:
        """Return who vouches for the skill now."""
        return self.signers.signatures.vouch_for(self.folder, name, digest or self.manifest.digest)


@pytest.fixture
def decisions(signers: Signers, tmp_path: Path) -> Decisions:
    return Decisions(signers, tmp_path)


def test_trust_ends_and_begins_at_the_next_decision(decisions: Decisions) -> None:
    signers = decisions.signers
    assert decisions.signer() == "alice"
    signers.revoke("alice")
    assert decisions.signer() == ""
    signers.revoked.unlink()
    assert decisions.signer() == "alice"
    signers.allow("mallory")
    assert decisions.signer() == ""
    signers.allowed.unlink()
    assert decisions.signer() == ""


def test_one_name_and_one_version_are_vouched_for(
    decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decisions.signer(name="depart") == ""
    assert decisions.signer(digest="0" * 64) == ""
    for words in ({"name": "depart"}, {"digest": "0" * 64}, {"key": "mallory"}):
        decisions.sign(**words)
        assert decisions.signer() == ""
    decisions.sign()
    monkeypatch.chdir(decisions.folder.parent)  # what a server publishes has an address that is no path
    signatures, digest = decisions.signers.signatures, decisions.manifest.digest
    assert signatures.vouch_for(Path("greet"), "greet", digest) == ""


def test_a_linked_or_too_large_manifest_vouches_for_nothing(decisions: Decisions, tmp_path: Path) -> None:
    file = decisions.folder / MANIFEST_FILE
    file.rename(tmp_path / "elsewhere")
    assert decisions.signer() == ""
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PackageError):
        decisions.signer()
    file.unlink()
    shutil.copy(tmp_path / "elsewhere", file)
    assert decisions.signer() == "alice"
    file.write_text(file.read_text() + " " * 9_000_000)
    with pytest.raises(PackageError, match="more than"):
        decisions.signer()


def test_without_ssh_keygen_nothing_is_told(decisions: Decisions, tmp_path: Path) -> None:
    without, digest = replace(decisions.signers.signatures, program=None), decisions.manifest.digest
    with pytest.raises(PackageError, match="install OpenSSH"):
        without.vouch_for(decisions.folder, "greet", digest)
    with pytest.raises(PackageError, match="install OpenSSH"):
        without.sign(MESSAGE, tmp_path)
