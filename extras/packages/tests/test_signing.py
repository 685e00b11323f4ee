"""Signatures as people use them: sign, install, trust the signer, and trust the signer no more."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from extras.packages.tests.signers import make_key, needs_keygen
from skills_agent.packages.manifest import MANIFEST_FILE
from tests.agents import call, calls, write_skill
from tests.graph.cli.command_line import CommandLine, Finished

pytestmark = needs_keygen
VERIFY = ("skills", "install", "--locked", "--check")
ALICE = "alice@example.org"
RUN = call("run_script", skill="greet", path="scripts/run.py")


class Publisher:
    """Somebody with a key, who shares the skill `greet`."""

    def __init__(self, cli: CommandLine, place: Path) -> None:
        self.cli = cli
        self.skill = place / "greet"
        self.key = make_key(place / "key")
        self.public = (place / "key.pub").read_text()
        description = "Greets. Use when somebody is to be greeted."
        write_skill(place, "greet", description, scripts__run_py="print('hi')\n")
        self.settings = cli.home / ".config/skills-agent"
        self.settings.mkdir(parents=True)

    @property
    def allowed(self) -> Path:
        """Return the file of signers of the user."""
        return self.settings / "allowed_signers"

    def sign(self) -> Finished:
        """Sign the skill."""
        return self.cli.run("publish", "pack", "--sign", str(self.skill), "--key", str(self.key))

    def pack(self) -> Path:
        """Make an archive of the skill."""
        archive = self.skill.with_name("greet.skill")
        assert self.cli.run("publish", "pack", str(self.skill), "-o", str(archive)).code == 0
        return archive

    def install(self, place: Path | None = None) -> Finished:
        """Install the skill, or what is named, in the project."""
        return self.cli.run("skills", "install", str(place or self.skill), "--yes")

    def allow(self, options: str = 'namespaces="agent-skills"') -> None:
        """Trust what is signed with the key."""
        self.allowed.write_text(f"{ALICE} {options} {self.public}")
        self.allowed.chmod(0o600)


@pytest.fixture
def alice(cli: CommandLine, tmp_path: Path) -> Publisher:
    place = tmp_path / "alice"
    place.mkdir()
    return Publisher(cli, place)


def asking(cli: CommandLine) -> str:
    """Return a model that runs the script of the skill."""
    return cli.script(calls(call("load_skill", name="greet")), calls(RUN), "done")


def is_trusted(cli: CommandLine) -> bool:
    """Tell whether a script of the installed skill runs without a question by `--yes run`."""
    return cli.run("ask", "go", "--yes", "run", "--model", asking(cli)).code == 0


@pytest.mark.slow
def test_trust_goes_by_the_signer_until_that_is_removed(cli: CommandLine, alice: Publisher) -> None:
    assert alice.sign().code == 0
    assert "signed, but nobody here vouches for the key SHA256:" in alice.install().out
    assert not is_trusted(cli)
    alice.allow()
    assert is_trusted(cli)
    assert f"trusted: signed by {ALICE}" in cli.run("skills", "show", "greet").out
    assert f"Trusted by who signed them\n  greet: {ALICE}" in cli.run("doctor").out
    assert f"Signed by {ALICE}." in cli.run("ask", "go", "--model", asking(cli)).out
    alice.allow('namespaces="agent-skills",valid-before="20200101"')
    assert cli.run(*VERIFY).code == 1
    alice.allowed.unlink()
    assert not is_trusted(cli)
    assert ALICE not in cli.run("skills", "show", "greet").out
    assert ALICE not in cli.run("doctor").out


def test_a_signature_of_another_skill_or_version_is_refused(
    cli: CommandLine, alice: Publisher, tmp_path: Path
) -> None:
    alice.sign()
    alice.allow()
    write_skill(tmp_path / "other", "depart", "Says goodbye. Use at the end.")
    taken = tmp_path / "other/depart" / MANIFEST_FILE
    shutil.copy(alice.skill / MANIFEST_FILE, taken)
    assert "it is of greet, and the skill is named depart" in alice.install(tmp_path / "other/depart").err
    with (alice.skill / "SKILL.md").open("a") as file:
        file.write("More.\n")
    assert "it does not fit the files: SKILL.md was changed since" in alice.install().err
    # With the digests of the new version, and the signature of the old one.
    assert alice.sign().code == 0
    newer = json.loads((alice.skill / MANIFEST_FILE).read_text())
    newer["signature"] = json.loads(taken.read_text())["signature"]
    (alice.skill / MANIFEST_FILE).write_text(json.dumps(newer))
    for place in (alice.skill, alice.pack()):
        refused = alice.install(place)
        assert (refused.code, "its signature does not count, for it is not of" in refused.err) == (1, True)
    assert not any((cli.workspace / ".agent").glob("skills/*"))


def test_a_manifest_that_is_copied_to_a_skill_in_place_vouches_for_nothing(
    cli: CommandLine, alice: Publisher
) -> None:
    alice.sign()
    alice.allow()
    skills = cli.workspace / ".agent/skills"
    write_skill(skills, "greet", "Greets. Use when greeting.", scripts__run_py="print('planted')\n")
    shutil.copy(alice.skill / MANIFEST_FILE, skills / "greet" / MANIFEST_FILE)
    assert not is_trusted(cli)
    (skills / "greet" / MANIFEST_FILE).unlink()
    (skills / "greet" / MANIFEST_FILE).symlink_to(alice.skill / MANIFEST_FILE)
    assert not is_trusted(cli)
    # And a signature is written through no link.
    (alice.skill / MANIFEST_FILE).rename(alice.skill.parent / "victim")
    (alice.skill / MANIFEST_FILE).symlink_to(alice.skill.parent / "victim")
    before = (alice.skill.parent / "victim").read_bytes()
    assert alice.sign().code == 1
    assert (alice.skill.parent / "victim").read_bytes() == before


def test_a_required_signature_is_one_that_counts(cli: CommandLine, alice: Publisher) -> None:
    (alice.settings / "config.toml").write_text("packages_require_signature = true\n")
    assert "a signature is required, and it is not signed" in alice.install().err
    alice.sign()
    assert "nobody here vouches for the key" in alice.install().err
    assert not any((cli.workspace / ".agent").glob("skills/*"))
    alice.allow()
    assert alice.install().code == 0
    assert cli.run(*VERIFY).code == 0
    alice.allowed.unlink()
    assert "Signatures that do not count today: greet." in cli.run(*VERIFY).out
    shutil.rmtree(cli.workspace / ".agent/skills/greet")
    for command in (["install", "--locked"], ["update"]):
        done = cli.run("skills", *command, "--yes")
        assert done.code == 1
        assert "a signature is required" in done.err
    assert not (cli.workspace / ".agent/skills/greet").exists()


def with_another_signature(text: str) -> str:
    manifest = json.loads(text)
    return json.dumps({**manifest, "signature": manifest["signature"].replace("A", "B")})


@pytest.mark.parametrize("damage", [None, lambda text: text[: len(text) // 2], with_another_signature])
def test_a_signature_that_was_removed_or_damaged_is_a_difference_and_comes_back(
    cli: CommandLine, alice: Publisher, damage: Callable[[str], str] | None
) -> None:
    alice.sign()
    alice.allow()
    assert alice.install(alice.pack() if damage is None else None).code == 0
    assert f"signed by {ALICE} (SHA256:" in cli.run(*VERIFY).out
    manifest = cli.workspace / ".agent/skills/greet" / MANIFEST_FILE
    kept = manifest.read_bytes()
    if damage is None:
        manifest.unlink()
    else:
        manifest.write_text(damage(kept.decode()))
    done = cli.run(*VERIFY)
    assert (done.code, MANIFEST_FILE in done.out, f"signed by {ALICE}" in done.out) == (1, True, False)
    assert cli.run("skills", "list").code == 0
    assert cli.run("skills", "install", "--locked", "--yes").code == 0
    assert manifest.read_bytes() == kept
    assert cli.run(*VERIFY).code == 0


def test_no_workspace_says_whose_signatures_count(cli: CommandLine, alice: Publisher) -> None:
    alice.sign()
    alice.install()
    cli.write(".agent/config.json", json.dumps({"packages_require_signature": True}))
    assert not is_trusted(cli)
    assert cli.run("trust").code == 1  # a file that says so is not even used when it is trusted
