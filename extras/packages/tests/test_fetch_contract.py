"""What every way to a place of skills promises, held against each of them, with real servers."""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from extras.packages.tests.installs import offered
from skills_agent.packages.address import portable
from skills_agent.packages.errors import PackageError
from skills_agent.packages.lock import LockedSkill
from skills_agent.packages.manifest import MANIFEST_FILE, Manifest
from skills_agent.packages.offer import Listed, OfferedSkill
from skills_agent.packages.syncing import fetch_skills
from skills_agent.packages.target import Target
from skills_agent.packages.well_known import SCHEMA
from skills_agent.skills.library.contents import ContentLimits
from tests.git_server import SKILL, Files, GitSite, Repository, serving_git

KINDS = ("folder", "archive", "git", "url", "well-known")
Skills = Mapping[str, Files]


def skill(name: str, text: str = "Hello.", **more: str | tuple[str, str]) -> Files:
    return {
        "SKILL.md": SKILL.format(name=name, text=text),
        "scripts/run.sh": ("100755", "echo hello\n"),
        "references/a b.md": "ä\r\n",
        **more,
    }


SKILLS: Skills = {"greet": skill("greet"), "wave": skill("wave")}


def zipped(skills: Skills) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for path, (mode, content) in paths(skills).items():
            member = zipfile.ZipInfo(path)
            member.external_attr = int(mode, 8) << 16
            archive.writestr(member, content)
    return raw.getvalue()


def paths(skills: Skills) -> dict[str, tuple[str, bytes]]:
    found = {}
    for name, files in skills.items():
        for path, given in files.items():
            mode, content = given if isinstance(given, tuple) else ("100644", given)
            raw = content if isinstance(content, bytes) else content.encode()
            found[f"{name}/{path}" if name else path] = (mode, raw)
    return found


class Shelf:
    """A place of one kind, and whoever asks it."""

    def __init__(self, kind: str, root: Path, site: GitSite) -> None:
        self.kind, self.root, self.site = kind, root, site
        self.repository = Repository(root / "repositories" / "a.git")

    def put(self, skills: Skills) -> None:
        """Have these skills in the place, and no others."""
        getattr(self, f"_put_{self.kind.replace('-', '_')}")(skills)

    @property
    def addresses(self) -> dict[str, str]:
        return {
            "folder": "./shared", "archive": "./x.zip", "git": f"git+{self.site.url}/a.git",
            "url": f"{self.site.url}/x.zip", "well-known": self.site.url,
        }  # fmt: skip

    def ask(self, *names: str, **options: Any) -> tuple[OfferedSkill, ...]:
        return offered(self.addresses[self.kind], self.root, *names, **options)

    def ask_locked(self, skill: OfferedSkill, into: Path) -> OfferedSkill:
        source = portable(skill.address, self.root)
        locked = LockedSkill(name=skill.name, source=source, resolved=skill.resolved, digest=skill.digest)
        target = Target(self.root, self.root / "state")

        def lose(_: LockedSkill, reason: str) -> None:
            raise PackageError(reason)

        [fetched] = fetch_skills([locked], target, into, None, lose, pinned=True)
        return fetched

    def _put_folder(self, skills: Skills) -> None:
        os.system(f"rm -rf {self.root}/shared")
        for path, (mode, content) in paths(skills).items():
            file = self.root / "shared" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if mode == "120000":
                file.symlink_to(content.decode())
            else:
                file.write_bytes(content)
                file.chmod(int(mode[-3:], 8))

    def _put_archive(self, skills: Skills) -> None:
        (self.root / "x.zip").write_bytes(zipped(skills))

    def _put_git(self, skills: Skills) -> None:
        self.repository.commit(paths(skills))

    def _put_url(self, skills: Skills) -> None:
        self.site.pages["/x.zip"] = zipped(skills)

    def _put_well_known(self, skills: Skills) -> None:
        entries = []
        for name in skills:
            raw = zipped({"": skills[name]})
            self.site.pages[f"/{name}.zip"] = raw
            digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
            entries.append({"name": name, "type": "archive", "url": f"/{name}.zip", "digest": digest})
        index = json.dumps({"$schema": SCHEMA, "skills": entries}).encode()
        self.site.pages["/.well-known/agent-skills/index.json"] = index


@pytest.fixture(
    params=[
        each if each in {"folder", "archive", "git"} else pytest.param(each, marks=pytest.mark.slow)
        for each in KINDS
    ]
)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    with serving_git(tmp_path / "repositories") as site:
        yield Shelf(request.param, tmp_path, site)


def test_the_same_skill_has_the_same_digest_from_everywhere(shelf: Shelf) -> None:
    shelf.put(SKILLS)
    greet = next(each for each in shelf.ask() if each.name == "greet")
    shelf.kind = "folder"
    shelf.put(SKILLS)
    [other] = shelf.ask("greet")
    assert (greet.digest, greet.files) == (other.digest, other.files)
    assert greet.files["scripts/run.sh"].endswith(" exec")
    assert greet.metadata is not None
    assert greet.metadata.name == "greet"


def test_names_choose_and_whoever_chooses_is_asked_what_there_is(shelf: Shelf) -> None:
    shelf.put(SKILLS)
    asked: list[list[str]] = []

    def choose(names: frozenset[str], listed: Listed) -> frozenset[str]:
        asked.append([*listed])
        return frozenset({"wave"})

    assert [each.name for each in shelf.ask("greet")] == ["greet"]
    assert [each.name for each in shelf.ask(choose=choose)] == ["wave"]
    assert asked == [["greet", "wave"]]
    with pytest.raises(PackageError, match=r"missing|no other one") as refused:
        shelf.ask("missing")
    assert "greet" in str(refused.value)


def test_what_is_locked_is_fetched_again_or_refused_and_never_something_else(
    shelf: Shelf, tmp_path: Path
) -> None:
    shelf.put(SKILLS)
    [greet] = shelf.ask("greet")
    assert shelf.ask_locked(greet, tmp_path / "first").digest == greet.digest
    shelf.put({"greet": skill("greet", "Evil."), "wave": skill("wave")})
    try:
        digest = shelf.ask_locked(greet, tmp_path / "again").digest
    except PackageError:
        assert shelf.kind != "git"
    else:
        assert digest == greet.digest


def test_a_manifest_goes_along_and_has_to_fit(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put(SKILLS)
    greet = next(each for each in shelf.ask() if each.name == "greet")
    manifest = Manifest(version=1, name="greet", digest=greet.digest, files=greet.files, signature="x\n")
    text = manifest.content().decode()
    shelf.put({"greet": {**SKILLS["greet"], MANIFEST_FILE: text}})
    [signed] = shelf.ask("greet")
    assert signed.digest == greet.digest
    assert (signed.folder / MANIFEST_FILE).read_text() == text
    shelf.put({"greet": {**skill("greet", "Other."), MANIFEST_FILE: text}})
    with pytest.raises(PackageError, match=r"manifest\.json: it does not fit the files"):
        shelf.ask("greet")


@pytest.mark.parametrize("path", ["con.txt", "a\u202eb.md", "skill.md"])
def test_hostile_names_are_refused(shelf: Shelf, path: str) -> None:
    shelf.put({"greet": skill("greet", **{path: "x"})})
    with pytest.raises(PackageError) as refused:
        shelf.ask()
    assert str(refused.value).isprintable()


LOOPS: Files = {
    "a/b/file": "x", "c/file": "x", "a/b/leak": ("120000", "../../c"), "c/leak": ("120000", "../a"),
}  # fmt: skip


@pytest.mark.parametrize(
    "links",
    [{"leak": ("120000", to)} for to in ("/etc/passwd", "../../../../../../../../etc/passwd", "..")]
    + [LOOPS],
    ids=["absolute", "up", "the package", "loop"],
)
@pytest.mark.variants
def test_links_that_lead_out_or_back_to_themselves_are_refused(shelf: Shelf, links: Files) -> None:
    shelf.put({"greet": {**skill("greet"), **links}})
    with pytest.raises(
        PackageError,
        match=r"leak: it (leads .* back to itself|is a link that leads out|is a link to a folder that)",
    ):
        shelf.ask()


def test_links_of_one_skill_that_come_to_an_end_stay(shelf: Shelf) -> None:
    links = {"a/x": "../scripts", "b/y": "../references", "c/z": "../SKILL.md", "nowhere": "missing"}
    shelf.put({"greet": {**skill("greet"), **{path: ("120000", to) for path, to in links.items()}}})
    [greet] = shelf.ask()
    assert {path for path, digest in greet.files.items() if digest.endswith(" link")} == links.keys()


def test_a_title_as_a_name_gives_way_to_the_folders(shelf: Shelf) -> None:
    if shelf.kind == "well-known":
        pytest.skip("its index has the name")
    shelf.put({"greet": {"SKILL.md": SKILL.format(name="Greet Me", text="x")}})
    assert [each.name for each in shelf.ask()] == ["greet"]


def test_limits_hold(shelf: Shelf) -> None:
    shelf.put({"greet": skill("greet", big="x" * 500_000)})
    for limits in (ContentLimits(max_bytes=100_000), ContentLimits(max_files=2)):
        with pytest.raises(PackageError):
            shelf.ask(limits=limits)
