"""Signatures as people use them: sign, install, trust the signer, and trust the signer no more."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from extras.packages.tests.signers import KEYGEN, make_key, needs_keygen
from skills_agent.packages.manifest import MANIFEST_FILE
from tests.agents import call, calls, write_skill
from tests.graph.cli.command_line import CommandLine, Finished

pytestmark = needs_keygen
ALICE = "alice@example.org"
RUN = call("run_script", skill="greet", path="scripts/run.py")


class Publisher:
    """Somebody with a key, who shares the skill `greet`."""

    def __init__(self, cli: CommandLine, place: Path) -> None:
        self.cli = cli
        self.skill = place / "greet"
        self.key = place / "key"
        self.public = place / "key.pub"
        make_key(self.key)
        write_skill(
            place, "greet", "Greets. Use when somebody is to be greeted.", scripts__run_py="print('hi')\n"
        )

    def sign(self, *places: Path, key: Path | None = None) -> Finished:
        """Sign the skill, or what is named."""
        return self.cli.run(
            "skills", "sign", *map(str, places or [self.skill]), "--key", str(key or self.key)
        )

    def pack(self) -> Path:
        """Make an archive of the skill."""
        archive = self.skill.with_name("greet.skill")
        assert self.cli.run("skills", "pack", str(self.skill), "-o", str(archive), "--force").code == 0
        return archive

    def install(self, place: Path | None = None, *options: str) -> Finished:
        """Install the skill, or what is named, in the project."""
        return self.cli.run("skills", "install", str(place or self.skill), "--yes", *options)

    def allow(self, *options: str) -> Finished:
        """Trust what is signed with the key."""
        return self.cli.run("trust", "signer", "add", ALICE, str(self.public), *options)


@pytest.fixture
def alice(cli: CommandLine, tmp_path: Path) -> Publisher:
    place = tmp_path / "alice"
    place.mkdir()
    return Publisher(cli, place)


def configure(cli: CommandLine, **settings: object) -> None:
    """Write the user's file of settings."""
    file = cli.home / ".config/skills-agent/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))


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
    assert alice.allow().code == 0
    assert is_trusted(cli)
    assert f"trusted: signed by {ALICE}" in cli.run("skills", "show", "greet").out
    assert f"Trusted by who signed them\n  greet: {ALICE}" in cli.run("skills", "doctor").out
    assert f"trusted: signed by {ALICE}" in cli.run("ask", "go", "--model", asking(cli)).out
    assert cli.run("trust", "signer", "remove", ALICE).code == 0
    assert not is_trusted(cli)
    assert ALICE not in cli.run("skills", "show", "greet").out
    assert ALICE not in cli.run("skills", "doctor").out


def test_trust_by_the_signature_of_an_archive_ends_with_its_key(cli: CommandLine, alice: Publisher) -> None:
    archive = alice.pack()
    assert alice.sign(archive).code == 0
    alice.allow()
    assert f"signed by {ALICE} (SHA256:" in alice.install(archive).out
    assert is_trusted(cli)
    [skill] = cli.run("skills", "verify", "--json").value["skills"]
    assert skill["signature"]["signer"] == ALICE
    assert skill["signature"].keys() == {"state", "signer", "fingerprint", "reason"}
    cli.run("trust", "signer", "remove", ALICE)
    assert not is_trusted(cli)
    done = cli.run("skills", "verify")
    assert done.code == 1
    assert "Signatures that do not count today: greet." in done.out


@pytest.mark.slow
def test_a_key_that_expired_or_was_revoked_is_trusted_no_more(
    cli: CommandLine, alice: Publisher, tmp_path: Path
) -> None:
    alice.sign()
    alice.allow()
    assert alice.install().code == 0
    assert is_trusted(cli)
    cli.run("trust", "signer", "remove", ALICE)
    alice.allow("--valid-before", "2020-01-01")
    assert not is_trusted(cli)
    cli.run("trust", "signer", "remove", ALICE)
    alice.allow()
    assert is_trusted(cli)
    revoked = tmp_path / "revoked"
    configure(cli, revoked_signers=str(revoked))
    assert not is_trusted(cli)  # the file is missing: nobody knows which keys count
    revoked.touch()
    assert is_trusted(cli)
    revoked.write_text(alice.public.read_text())
    assert not is_trusted(cli)


def test_what_a_signature_is_not_of_is_not_trusted(cli: CommandLine, alice: Publisher) -> None:
    alice.sign()
    alice.allow()
    alice.install()
    file = cli.workspace / ".agent/skills/greet/scripts/run.py"
    file.write_text("print('planted')\n")
    assert not is_trusted(cli)


def test_a_signature_of_another_skill_or_version_is_refused(
    cli: CommandLine, alice: Publisher, tmp_path: Path
) -> None:
    alice.sign()
    alice.allow()
    write_skill(tmp_path / "other", "depart", "Says goodbye. Use at the end.")
    taken = tmp_path / "other/depart" / MANIFEST_FILE
    shutil.copy(alice.skill / MANIFEST_FILE, taken)
    assert "it is of greet, and the skill is named depart" in alice.install(tmp_path / "other/depart").err
    manifest = json.loads(taken.read_text())
    (alice.skill / "SKILL.md").write_text((alice.skill / "SKILL.md").read_text() + "More.\n")
    assert "it does not fit the files: SKILL.md was changed since" in alice.install().err
    # With the digests of the new version, and the signature of the old one.
    assert alice.sign().code == 0
    newer = json.loads((alice.skill / MANIFEST_FILE).read_text())
    newer["signature"] = manifest["signature"]
    (alice.skill / MANIFEST_FILE).write_text(json.dumps(newer))
    refused = alice.install()
    assert refused.code == 1
    assert refused.err == (
        "error: greet is refused: its signature does not count, for it is not of these bytes: "
        "something was changed since it was made.\n"
    )
    assert not (cli.workspace / ".agent").exists()


def test_the_signature_of_another_archive_is_refused(alice: Publisher) -> None:
    archive = alice.pack()
    alice.sign(archive)
    (alice.skill / "SKILL.md").write_text((alice.skill / "SKILL.md").read_text() + "More.\n")
    assert "does not count" in alice.install(alice.pack()).err


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


@pytest.mark.parametrize("mode", [0o666, 0o620])
@pytest.mark.variants
def test_a_file_of_signers_that_others_can_write_vouches_for_nobody(
    cli: CommandLine, alice: Publisher, mode: int
) -> None:
    alice.sign()
    alice.allow()
    assert alice.install().code == 0
    (file,) = cli.home.rglob("allowed_signers")
    file.chmod(mode)
    assert not is_trusted(cli)
    listed = cli.run("trust", "signer", "list")
    assert "other users can write it; to change that: chmod go-w" in listed.err


def test_a_required_signature_is_one_that_counts(cli: CommandLine, alice: Publisher) -> None:
    required = "--require-signature"
    assert "a signature is required, and it is not signed" in alice.install(None, required).err
    alice.sign()
    assert "nobody here vouches for the key" in alice.install(None, required).err
    assert not (cli.workspace / ".agent").exists()
    alice.allow()
    assert alice.install(None, required).code == 0
    assert cli.run("skills", "sync", required).code == 0
    assert cli.run("skills", "sync", "--frozen", required).code == 0
    cli.run("trust", "signer", "remove", ALICE)
    for command in (["sync"], ["sync", "--frozen"], ["update", "--yes"]):
        done = cli.run("skills", *command, required)
        assert done.code == 1
        assert "a signature is required" in done.err


def truncated(text: str) -> str:
    return text[: len(text) // 2]


def with_another_signature(text: str) -> str:
    manifest = json.loads(text)
    return json.dumps({**manifest, "signature": manifest["signature"].replace("A", "B")})


@pytest.mark.parametrize("damage", [None, truncated, with_another_signature])
@pytest.mark.parametrize("is_packed", [True, False])
def test_a_signature_that_was_removed_or_damaged_is_a_difference_and_comes_back(
    cli: CommandLine, alice: Publisher, damage: Callable[[str], str] | None, is_packed: bool
) -> None:
    alice.sign()
    alice.allow()
    assert alice.install(alice.pack() if is_packed else None).code == 0
    assert cli.run("skills", "verify").code == 0
    assert cli.run("skills", "sync", "--frozen").code == 0
    manifest = cli.workspace / ".agent/skills/greet" / MANIFEST_FILE
    kept = manifest.read_bytes()
    if damage is None:
        manifest.unlink()
    else:
        manifest.write_text(damage(kept.decode()))
    for command in (["verify"], ["sync", "--frozen"], ["sync", "--frozen", "--require-signature"], ["list"]):
        done = cli.run("skills", *command)
        assert (done.code == 0) == (command == ["list"]), command
        assert f"signed by {ALICE}" not in done.out, command
    assert MANIFEST_FILE in cli.run("skills", "verify").out
    assert cli.run("skills", "sync", "--yes").code == 0
    assert manifest.read_bytes() == kept
    assert cli.run("skills", "verify").code == 0


def test_a_skill_that_was_signed_since_is_installed_again(cli: CommandLine, alice: Publisher) -> None:
    alice.install()
    alice.allow()
    alice.sign()
    assert "signed by" in alice.install().out
    assert f"signed by {ALICE}" in cli.run("skills", "verify").out
    assert cli.run("skills", "verify").code == 0


def test_the_operator_can_require_signatures(cli: CommandLine, alice: Publisher) -> None:
    configure(cli, require_signature=True)
    assert "a signature is required" in alice.install().err


def test_what_is_signed_is_what_ssh_keygen_verifies(alice: Publisher, tmp_path: Path) -> None:
    archive = alice.pack()
    alice.sign(archive)
    signers = tmp_path / "signers"
    signers.write_text(f'{ALICE} namespaces="agent-skills" {alice.public.read_text()}')
    command = ["-Y", "verify", "-f", str(signers), "-I", ALICE, "-n", "agent-skills", "-s", f"{archive}.sig"]
    with archive.open("rb") as content:
        assert subprocess.run([str(KEYGEN), *command], stdin=content, check=False).returncode == 0


def test_signing_again_needs_force_for_another_key(alice: Publisher, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    archive = alice.pack()
    for place in (alice.skill, archive):
        assert alice.sign(place).code == 0
        assert alice.sign(place).code == 0
        assert "--force replaces it" in alice.sign(place, key=tmp_path / "other").err


def test_sign_says_what_it_needs(cli: CommandLine, alice: Publisher, tmp_path: Path) -> None:
    without = cli.run("skills", "sign", str(alice.skill)).err
    assert f"{alice.skill} cannot be signed: there is no key in ~/.ssh; make one by ssh-keygen" in without
    (tmp_path / "note.txt").write_text("x")
    assert "it is no folder of a skill, and no archive" in alice.sign(tmp_path / "note.txt").err
    assert "it has no SKILL.md" in alice.sign(tmp_path).err
    assert "key" in alice.sign(key=tmp_path / "note.txt").err


def test_without_ssh_keygen_nothing_is_signed_and_no_signature_counts(
    cli: CommandLine, alice: Publisher, tmp_path: Path
) -> None:
    key = str(alice.key)
    unsigned = cli.run("skills", "sign", str(alice.skill), "--key", key, PATH=str(tmp_path))
    assert unsigned.code == 1
    assert "install OpenSSH" in unsigned.err
    assert not (alice.skill / MANIFEST_FILE).exists()
    alice.sign()
    alice.allow()
    refused = cli.run("skills", "install", str(alice.skill), "--yes", PATH=str(tmp_path))
    assert refused.code == 1
    assert "install OpenSSH" in refused.err


def test_signers_are_listed_and_kept_as_ssh_keygen_reads_them(cli: CommandLine, alice: Publisher) -> None:
    assert "Nobody's signatures count." in cli.run("trust", "signer", "list").out
    alice.allow("--valid-before", "2031-02-03")
    assert "is in" in alice.allow().out
    assert "counts until 2031-02-03" in cli.run("trust", "signer", "list").out
    (file,) = cli.home.rglob("allowed_signers")
    assert file.read_text().startswith(
        f'{ALICE} namespaces="agent-skills",valid-before="20310203" ssh-ed25519 '
    )
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(f"# mine\nbroken line\n{file.read_text()}")
    assert "Line 2 of" in cli.run("trust", "signer", "list").out
    [listed] = cli.run("trust", "signer", "list", "--json").value
    assert (listed["name"], listed["counts"]) == (ALICE, True)
    assert cli.run("trust", "signer", "remove", ALICE).code == 0
    assert file.read_text() == "# mine\nbroken line\n"
    assert "nobody" in cli.run("trust", "signer", "remove", ALICE).err


@pytest.mark.parametrize("name", ["a b", "*", "a,b", "!a", "#a", '"a"', "a\x1b", ""])
def test_a_name_that_means_others_is_refused(cli: CommandLine, alice: Publisher, name: str) -> None:
    assert cli.run("trust", "signer", "add", "--", name, str(alice.public)).code == 2
    assert not list(cli.home.rglob("allowed_signers"))


def test_what_is_no_public_key_is_refused(cli: CommandLine, alice: Publisher, tmp_path: Path) -> None:
    (tmp_path / "none").write_bytes(os.urandom(64))
    for key in (str(alice.key), str(tmp_path / "none"), str(tmp_path / "missing"), "ssh-ed25519 AAAA"):
        assert cli.run("trust", "signer", "add", ALICE, key).code == 1
    assert not list(cli.home.rglob("allowed_signers"))


def test_a_key_that_expired_or_was_revoked_installs_nothing(cli: CommandLine, alice: Publisher) -> None:
    archive = alice.pack()
    alice.sign(alice.skill, archive)
    alice.allow("--valid-before", "2020-01-01")
    for place in (alice.skill, archive):
        assert "the key of alice@example.org is not valid today" in alice.install(place).err
    cli.run("trust", "signer", "remove", ALICE)
    revoked = cli.home / ".config/skills-agent/revoked_signers"
    revoked.write_text(alice.public.read_text())
    for place in (alice.skill, archive):
        assert "is revoked" in alice.install(place).err
    assert not (cli.workspace / ".agent").exists()


def test_verify_says_that_a_signer_was_revoked_or_expired(cli: CommandLine, alice: Publisher) -> None:
    alice.sign()
    alice.allow()
    alice.install()
    assert f"signed by {ALICE} (SHA256:" in cli.run("skills", "verify").out
    cli.run("trust", "signer", "remove", ALICE)
    alice.allow("--valid-before", "2020-01-01")
    done = cli.run("skills", "verify")
    assert (done.code, "is not valid today" in done.out) == (1, True)
    cli.run("trust", "signer", "remove", ALICE)
    alice.allow()
    (cli.home / ".config/skills-agent/revoked_signers").write_text(alice.public.read_text())
    done = cli.run("skills", "verify")
    assert (done.code, "is revoked" in done.out) == (1, True)


@pytest.mark.parametrize("is_packed", [True, False])
def test_verify_elsewhere_fails_for_no_signer_that_nobody_knows(
    cli: CommandLine, alice: Publisher, tmp_path: Path, is_packed: bool
) -> None:
    place = alice.pack() if is_packed else alice.skill
    alice.sign(place)
    alice.allow()
    alice.install(place)
    other = CommandLine(tmp_path / "other")
    shutil.copytree(cli.workspace / ".agent", other.workspace / ".agent")
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = other.run("skills", "verify", **state)
    assert done.code == 0
    assert ("it was not checked here" if is_packed else "nobody here vouches for the key") in done.out
    assert "a signature is required" in other.run("skills", "sync", "--require-signature", **state).err
    manifest = other.workspace / ".agent/skills/greet" / MANIFEST_FILE
    damaged = json.loads(manifest.read_text())
    make_key(tmp_path / "mallory")
    alice.sign(alice.skill, key=tmp_path / "mallory")
    damaged["signature"] = "x"
    manifest.write_text(json.dumps(damaged))
    assert other.run("skills", "verify", **state).code == 1


def test_what_a_signer_signed_hides_no_skill_of_the_user_silently(cli: CommandLine, alice: Publisher) -> None:
    mine = cli.home / ".agent/skills"
    write_skill(mine, "greet", "Greets, as I like it. Use when greeting.")
    alice.sign()
    alice.allow()
    alice.install()
    assert is_trusted(cli)
    for command in (("list",), ("doctor",)):
        assert "greet of project" in cli.run("skills", *command).out
    assert "hides greet of user" in cli.run("ask", "go", "--model", asking(cli)).out


def test_a_file_of_signers_in_the_workspace_vouches_for_nobody(cli: CommandLine, alice: Publisher) -> None:
    alice.sign()
    alice.allow()
    alice.install()
    (file,) = cli.home.rglob("allowed_signers")
    brought = cli.workspace / "allowed_signers"
    file.rename(brought)
    for place in (brought, file):
        configure(cli, allowed_signers=str(place))
        assert not is_trusted(cli)
        assert "may have come from somebody else" in cli.run("trust", "signer", "list").err
        assert "may have come from somebody else" in alice.install().err
        file.unlink(missing_ok=True)
        file.symlink_to(brought)
    file.unlink()
    shutil.copy(brought, file)
    assert is_trusted(cli)


@pytest.mark.parametrize("name", ["allowed_signers", "revoked_signers", "require_signature"])
def test_no_workspace_says_whose_signatures_count(cli: CommandLine, alice: Publisher, name: str) -> None:
    alice.sign()
    alice.install()
    brought = cli.workspace.parent / "signers"
    brought.write_text(f"{ALICE} {alice.public.read_text()}")
    value = name == "require_signature" or str(brought)
    cli.write(".agent/config.json", json.dumps({name: value}))
    assert not is_trusted(cli)
    assert cli.run("trust").code == 1  # a file that says so is not even used when it is trusted


@pytest.mark.slow
def test_what_was_noted_of_an_archive_is_of_that_skill_alone(
    cli: CommandLine, alice: Publisher, tmp_path: Path
) -> None:
    archive = alice.pack()
    alice.sign(archive)
    alice.allow()
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert cli.run("skills", "install", str(archive), "--yes", **state).code == 0
    (note,) = (tmp_path / "state").rglob("signed/*.json")

    def runs() -> bool:
        return cli.run("ask", "go", "--yes", "run", "--model", asking(cli), **state).code == 0

    assert runs()
    kept = note.read_text()
    note.write_text(kept.replace("greet", "depart"))
    assert not runs()
    note.write_text(kept)
    note.parent.chmod(0o777)
    assert not runs()
    note.parent.chmod(0o700)
    assert runs()
    file = cli.workspace / ".agent/skills/greet/scripts/run.py"
    file.write_text("print('planted')\n")
    assert not runs()


def test_signers_that_are_added_are_those_of_ssh_keygen(
    cli: CommandLine, alice: Publisher, tmp_path: Path
) -> None:
    archive = alice.pack()
    alice.sign(archive)
    alice.allow("--valid-before", "2099-01-31")
    (file,) = cli.home.rglob("allowed_signers")
    command = ["-Y", "verify", "-f", str(file), "-I", ALICE, "-n", "agent-skills", "-s", f"{archive}.sig"]
    with archive.open("rb") as content:
        assert subprocess.run([str(KEYGEN), *command], stdin=content, check=False).returncode == 0


def test_a_changed_skill_is_not_signed_over_the_name_of_another(alice: Publisher, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    alice.sign()
    (alice.skill / "SKILL.md").write_text((alice.skill / "SKILL.md").read_text() + "More.\n")
    assert "--force replaces it" in alice.sign(key=tmp_path / "other").err


def test_a_signature_is_written_through_no_link(cli: CommandLine, alice: Publisher, tmp_path: Path) -> None:
    archive = alice.pack()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    Path(f"{archive}.sig").symlink_to(victim)
    (alice.skill / MANIFEST_FILE).symlink_to(victim)
    for place in (archive, alice.skill):
        done = alice.sign(place)
        assert (done.code, done.out) == (1, "")
        assert "Traceback" not in done.err
    assert victim.read_text() == "mine"


def test_sync_puts_nothing_in_place_without_a_required_signature(cli: CommandLine, alice: Publisher) -> None:
    alice.sign()
    alice.allow()
    alice.install()
    shutil.rmtree(cli.workspace / ".agent/skills/greet")
    cli.run("trust", "signer", "remove", ALICE)
    done = cli.run("skills", "sync", "--yes", "--require-signature")
    assert (done.code, done.out) == (1, "")
    assert "a signature is required" in done.err
    assert not (cli.workspace / ".agent/skills/greet").exists()


def test_sync_elsewhere_trusts_the_signature_of_an_archive(
    cli: CommandLine, alice: Publisher, tmp_path: Path
) -> None:
    archive = alice.pack()
    alice.sign(archive)
    alice.allow()
    alice.install(archive)
    shutil.rmtree(cli.workspace / ".agent/skills/greet")
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = cli.run("skills", "sync", "--yes", "--require-signature", **state)
    assert done.code == 0
    assert f"signed by {ALICE} (SHA256:" in done.out
    assert cli.run("ask", "go", "--yes", "run", "--model", asking(cli), **state).code == 0
