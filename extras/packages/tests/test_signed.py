"""Trust by the signer at each decision: what counts, and what ends it at once, in one long process."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from extras.packages.tests.signers import Signers, needs_keygen
from skills_agent.packages.address import Address
from skills_agent.packages.manifest import MANIFEST_FILE, Manifest, ManifestError, statement
from skills_agent.packages.offer import Offer, OfferedSkill
from skills_agent.packages.packing import manifest_of
from skills_agent.packages.signatures import SignatureCheck
from skills_agent.packages.signed import Signers as Known
from skills_agent.packages.signed import check_offered
from skills_agent.packages.signer_files import SignerFileError, SignerFiles
from skills_agent.skills.library.contents import ContentLimits, measure
from tests.agents import write_skill

pytestmark = needs_keygen
PAST, FUTURE = "20000101Z", "20990101Z"


class Decisions:
    """A signed skill, and what a process that runs on says of it."""

    def __init__(self, place: Path) -> None:
        self.signers = Signers(place)
        self.now = datetime.now(UTC)
        files = SignerFiles(self.signers.allowed, usual_revoked=self.signers.revoked)
        self.known = Known(files, place / "state", clock=lambda: self.now)
        self.folder = place / "skills" / "greet"
        write_skill(place / "skills", "greet", "Greets. Use when somebody is to be greeted.")
        self.digest = measure(self.folder, None, ContentLimits()).digest
        self.sign()

    def sign(self, name: str = "greet", digest: str = "", key: str = "alice") -> None:
        """Write a manifest that is of the files, with a signature of a name and a digest."""
        manifest = manifest_of(self.folder, ContentLimits())
        message = statement(name, digest or self.digest)
        made = self.signers.signatures.sign(message, self.signers.alice.with_name(key))
        said = json.loads(
            Manifest(version=1, name="greet", digest=self.digest, files=manifest.files).content()
        )
        (self.folder / MANIFEST_FILE).write_text(json.dumps({**said, "signature": made}))

    def signer(self, name: str = "greet", digest: str = "") -> str:
        """Return who vouches for the skill now."""
        return self.known.vouch_for(self.folder, name, digest or self.digest)

    def note(self) -> None:
        """Note that the skill came in an archive that alice had signed, and take its manifest away."""
        key = self.signers.signatures.check(statement("greet", self.digest), self.signature).key
        check = SignatureCheck("good", "alice", "", "", key)
        offer = Offer(Address("x.skill", "archive", "x.skill"), (), archive_check=check)
        self.known.note([(offer, OfferedSkill("greet", self.folder, self.digest, {}), check)])
        (self.folder / MANIFEST_FILE).unlink()

    @property
    def signature(self) -> str:
        """Return the signature in the manifest."""
        return str(json.loads((self.folder / MANIFEST_FILE).read_text())["signature"])


@pytest.fixture(params=["manifest", "archive"])
def decisions(request: pytest.FixtureRequest, tmp_path: Path) -> Decisions:
    made = Decisions(tmp_path)
    if request.param == "archive":
        made.note()
    return made


def test_trust_ends_and_begins_at_the_next_decision(decisions: Decisions) -> None:
    signers = decisions.signers
    signers.revoked.unlink()
    assert decisions.signer() == "alice"
    signers.revoke("alice")
    assert decisions.signer() == ""
    signers.revoked.unlink()
    assert decisions.signer() == "alice"
    for options, who in (
        (f'valid-before="{PAST}"', ""),
        (f'valid-before="{FUTURE}"', "alice"),
        (f'valid-after="{FUTURE}"', ""),
        ('namespaces="git"', ""),
        ("cert-authority", ""),
        ('namespaces="agent-skills"', "alice"),
    ):
        signers.allow("alice", options=options)
        assert decisions.signer() == who, options
    signers.allow("mallory")
    assert decisions.signer() == ""
    signers.allowed.unlink()
    assert decisions.signer() == ""


def test_a_key_expires_while_the_process_runs_and_no_file_changes(decisions: Decisions) -> None:
    decisions.signers.allow("alice", options=f'valid-before="{FUTURE}"')
    assert decisions.signer() == "alice"
    decisions.now = datetime(2100, 1, 1, tzinfo=UTC)
    assert decisions.signer() == ""


def test_nothing_counts_by_files_that_cannot_be_believed(decisions: Decisions) -> None:
    for file, content in ((decisions.signers.revoked, "what is this\n"), (decisions.signers.allowed, "")):
        kept = file.read_text()
        file.write_text(content or kept)
        if not content:
            file.chmod(0o646)
        with pytest.raises(SignerFileError):
            decisions.signer()
        file.chmod(0o600)
        file.write_text(kept)
    assert decisions.signer() == "alice"


def test_no_file_of_signers_is_read_in_part(decisions: Decisions) -> None:
    with decisions.signers.allowed.open("a") as file:
        file.write("#" * 1_000_000)
    with pytest.raises(SignerFileError, match="more than 1,000,000 bytes"):
        decisions.signer()


def test_one_name_and_one_version_are_vouched_for(decisions: Decisions) -> None:
    assert decisions.signer(name="depart") == ""
    assert decisions.signer(digest="0" * 64) == ""
    assert decisions.signer(digest="../" * 20) == ""


def test_what_a_server_publishes_is_trusted_by_no_signature(
    decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(decisions.folder.parent)
    assert decisions.known.vouch_for(Path("greet"), "greet", decisions.digest) == ""


def test_signatures_of_something_else_vouch_for_nothing(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    for words in ({"name": "depart"}, {"digest": "0" * 64}, {"key": "mallory"}):
        decisions.sign(**words)
        assert decisions.signer() == ""
    decisions.sign()
    assert decisions.signer() == "alice"


def test_what_was_noted_of_a_manifest_vouches_for_nothing_once_that_is_gone(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    skill = OfferedSkill("greet", decisions.folder, decisions.digest, {})
    offer = Offer(Address("greet", "folder", "greet"), (skill,))
    check = check_offered(offer, skill, decisions.signers.signatures)
    decisions.known.note([(offer, skill, check)])
    assert decisions.signer() == "alice"
    (decisions.folder / MANIFEST_FILE).unlink()
    assert decisions.signer() == ""
    assert decisions.known.check(decisions.folder, "greet", decisions.digest) is None
    assert decisions.known.noted("greet", decisions.digest) is not None


def test_a_linked_or_too_large_manifest_vouches_for_nothing(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path)
    file = decisions.folder / MANIFEST_FILE
    file.rename(tmp_path / "elsewhere")
    assert decisions.signer() == ""
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ManifestError):
        decisions.signer()
    file.unlink()
    shutil.copy(tmp_path / "elsewhere", file)
    assert decisions.signer() == "alice"
    file.write_text(file.read_text() + " " * 9_000_000)
    with pytest.raises(ManifestError, match="more than"):
        decisions.signer()
