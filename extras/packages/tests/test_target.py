"""A folder of installed skills: what it takes, what it leaves alone, and what it believes."""

import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from extras.packages.tests.installs import AT, NOBODY, Installs, offered
from skills_agent.packages.backups import KEPT, backups_of
from skills_agent.packages.errors import PackageError
from skills_agent.packages.installation import install, plan
from skills_agent.packages.journal import Decision, Put, journal_of, write_decision
from skills_agent.packages.lock import LOCK_FILE, parse_lock, read_lock
from skills_agent.packages.target import Target
from skills_agent.skills.sources.walk import INSTALLING
from tests.agents import write_skill

DIGEST = "0" * 64


@pytest.fixture
def installs(tmp_path: Path) -> Installs:
    return Installs(tmp_path)


def test_an_update_replaces_the_whole_folder_and_keeps_what_was_there(installs: Installs) -> None:
    installs.write("greet", "one", files=5)
    installs.install()
    shutil.rmtree(installs.shared)
    installs.write("greet", "two", files=2)
    installs.install()
    assert installs.versions() == {"greet": "two"}
    assert len(list((installs.folder / "greet" / "scripts").iterdir())) == 2
    installs.assert_settled()
    [backup] = backups_of(installs.target.backups, "greet")
    assert (backup.folder / "scripts" / "4.sh").read_text() == "echo one\n"
    assert backup.locked is not None
    assert backup.locked.digest == backup.digest


def test_a_copy_that_changes_after_it_was_shown_is_not_installed(installs: Installs) -> None:
    source = str(installs.write("greet", "one"))
    with installs.target.draft() as draft:
        offer = offered(source, draft)
        changes = plan(installs.target, offer, AT, NOBODY)
        (offer[0].folder / "SKILL.md").write_text("another")
        with pytest.raises(PackageError, match="was changed while it was shown"):
            install(installs.target, draft, changes, AT)
    assert installs.versions() == {}


@pytest.mark.parametrize("is_link", [True, False], ids=["link", "file"])
def test_what_stands_in_the_place_of_a_skill_is_put_aside_with_force_alone(
    installs: Installs, *, is_link: bool
) -> None:
    elsewhere, place = installs.write("greet", "one") / "greet", installs.folder / "greet"
    installs.folder.mkdir()
    place.symlink_to(elsewhere) if is_link else place.write_text("a file")
    with pytest.raises(PackageError, match="was not installed by skills-agent"):
        installs.install()
    installs.install(force=True)
    assert installs.versions() == {"greet": "one"}
    assert not place.is_symlink()
    assert (elsewhere / "SKILL.md").exists()
    [backup] = backups_of(installs.target.backups, "greet")
    assert backup.folder.is_symlink() == is_link


def test_backups_are_bounded_and_the_oldest_go(installs: Installs) -> None:
    for number in range(KEPT + 3):
        installs.write("greet", f"version-{number}")
        installs.install()
    assert len(backups_of(installs.target.backups, "greet")) == KEPT


def test_only_what_was_installed_is_removed_by_its_name(installs: Installs) -> None:
    own = write_skill(installs.folder, "own", "Mine.")
    with pytest.raises(PackageError, match="was not installed by skills-agent"):
        installs.uninstall("own")
    assert own.exists()
    installs.write("greet", "one")
    installs.install()
    for name in ("../shared", "..", ".", "", "a/b", "/etc", "x\0y"):
        with pytest.raises(PackageError, match="There is no skill"):
            installs.uninstall(name)
    assert installs.shared.exists()


def test_a_read_only_skill_is_replaced_and_removed(installs: Installs) -> None:
    installs.write("greet", "one")
    installs.install()
    for path in ("greet/scripts", "greet"):
        (installs.folder / path).chmod(0o555)
    installs.write("greet", "two")
    installs.install()
    assert installs.versions() == {"greet": "two"}
    installs.assert_settled()


# What a repository brings


def bring(installs: Installs, name: str, decision: object) -> Path:
    """Lay a draft into the folder with a plan that nobody decided on here."""
    draft = installs.folder / INSTALLING / name
    shutil.copytree(installs.write("evil", "evil") / "evil", draft / "new" / "evil")
    shutil.rmtree(installs.shared / "evil")
    (draft / "plan.json").write_text(json.dumps(decision))
    (draft / LOCK_FILE).write_text("version = 1\n")
    return draft


@pytest.mark.parametrize("name", ["commit-x", "draft-x", "draft-"])
def test_a_plan_that_a_repository_brings_is_never_done(installs: Installs, name: str) -> None:
    installs.write("greet", "one")
    installs.install()
    lock = (installs.folder / LOCK_FILE).read_text()
    plan = {"put": {"evil": DIGEST, "../../evil": DIGEST}, "remove": ["greet", "../shared"], "lock": ""}
    bring(installs, name, plan)
    installs.target.settle()
    assert installs.versions() == {"greet": "one"}
    assert (installs.folder / LOCK_FILE).read_text() == lock
    assert installs.shared.exists()


@pytest.mark.parametrize("is_all", [True, False], ids=["the drafts", "a draft"])
def test_a_link_for_the_drafts_leads_nowhere(installs: Installs, tmp_path: Path, *, is_all: bool) -> None:
    precious = tmp_path / "precious" / "draft-x"
    precious.mkdir(parents=True)
    installs.write("greet", "one")
    drafts = installs.folder / INSTALLING
    link = drafts if is_all else drafts / "draft-x"
    link.parent.mkdir(parents=True)
    link.symlink_to(precious.parent)
    with pytest.raises(PackageError, match="is no folder; remove it") if is_all else nullcontext():
        installs.install()
    assert precious.exists()


def test_a_decision_about_another_draft_of_that_name_is_forgotten(installs: Installs) -> None:
    installs.write("greet", "one")
    installs.install()
    draft = bring(installs, "draft-x", {})
    digest = Target(draft / "new", installs.state).found("evil")
    other = draft.lstat().st_ino + 1
    puts = {"evil": Put(digest, ""), "greet": Put("", installs.target.found("greet"))}
    write_decision(journal_of(installs.state, installs.folder), Decision("draft-x", other, puts, ""))
    installs.target.settle()
    assert installs.versions() == {"greet": "one"}
    installs.assert_settled()


def test_a_state_folder_that_others_can_write_is_not_believed(installs: Installs) -> None:
    installs.write("greet", "one")
    (installs.state / "installing").mkdir(parents=True)
    (installs.state / "installing").chmod(0o777)
    with pytest.raises(PackageError, match="not this user's alone"):
        installs.install()
    assert installs.versions() == {}


SKILL = f'[[skill]]\nname = "x"\nsource = "./s"\ndigest = "{"0" * 64}"\n'
LOCKS = {
    "a name that leads out": "version = 1\n" + SKILL.replace('"x"', '"../x"'),
    "a digest that is none": "version = 1\n" + SKILL.replace("000", "../"),
    "a newer version": "version = 2\n",
    "two of one name": f"version = 1\n{SKILL * 2}",
    "no TOML": "version = [[[",
    "deep": f"version = 1\nx = {'[' * 5_000}{']' * 5_000}\n",
    "a table of skills": "version = 1\n[skill]\nx = 1\n",
}


@pytest.mark.parametrize("text", LOCKS.values(), ids=LOCKS)
def test_a_lock_that_cannot_be_used_is_one_sentence(text: str, tmp_path: Path) -> None:
    with pytest.raises(PackageError) as caught:
        parse_lock(text.encode(errors="surrogatepass"), tmp_path / LOCK_FILE)
    assert "\x1b" not in str(caught.value)


def test_a_lock_that_is_a_link_or_huge_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("version = 1\n")
    (tmp_path / LOCK_FILE).symlink_to(tmp_path / "secret")
    with pytest.raises(PackageError):
        read_lock(tmp_path)
    (tmp_path / LOCK_FILE).unlink()
    (tmp_path / LOCK_FILE).touch()
    os.truncate(tmp_path / LOCK_FILE, 1 << 40)
    with pytest.raises(PackageError, match="more than"):
        read_lock(tmp_path)
