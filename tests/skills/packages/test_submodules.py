"""Submodules of a repository that a person asked for: which commit, from where, and what may not be named."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from skills_agent.skills.library.contents import ContentLimits
from skills_agent.skills.packages.address import parse_address
from skills_agent.skills.packages.errors import EntryError, OfferError, PackageError
from skills_agent.skills.packages.fetch import fetch
from skills_agent.skills.packages.lock import LockedSkill
from skills_agent.skills.packages.offer import Offer, Wanted
from skills_agent.skills.packages.submodules import MAX_SUBMODULES
from skills_agent.skills.packages.syncing import Place, fetch_locked
from tests.git_server import SKILL, Files, Repository, serving_git

GREET = SKILL.format(name="greet", text="Hello.")
WAVE = SKILL.format(name="wave", text="Wave.")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def main(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repositories" / "acme" / "skills.git")


@pytest.fixture
def other(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repositories" / "acme" / "other.git")


def gitmodules(url: str, path: str = "greet/vendor", more: str = "") -> str:
    return f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n{more}'


def asked(address: str, place: Path, **more: object) -> Offer:
    into = place / f"into-{len(list(place.iterdir()))}"
    into.mkdir()
    wanted = Wanted(parse_address(address, place), into, submodules=True)
    return fetch(wanted._replace(**more))  # type: ignore[arg-type]


def test_a_submodule_in_a_skill_is_fetched_at_the_commit_that_the_repository_has(
    main: Repository, other: Repository, tmp_path: Path
) -> None:
    pinned = other.commit({"lib/run.sh": ("100755", "echo one\n"), "link": ("120000", "lib/run.sh")})
    other.commit({"lib/run.sh": "echo two\n"})
    files = {"greet/SKILL.md": GREET, ".gitmodules": gitmodules("../other.git")}
    main.commit({**files, "greet/vendor": ("160000", pinned)})
    offer = asked(main.address, tmp_path)
    [greet] = offer.skills
    assert set(greet.files) == {"SKILL.md", "vendor/lib/run.sh", "vendor/link"}
    assert (greet.folder / "vendor" / "lib" / "run.sh").read_text() == "echo one\n"
    assert greet.files["vendor/lib/run.sh"].endswith(" exec")
    assert offer.submodules

    with pytest.raises(EntryError, match="--submodules fetches those"):
        asked(main.address, tmp_path, submodules=False)
    locked = LockedSkill(
        name="greet", source=offer.address.text, resolved=offer.resolved, digest=greet.digest, submodules=True
    )
    (tmp_path / "sync").mkdir()
    place = Place(tmp_path, tmp_path / "sync", ContentLimits())
    [again] = fetch_locked([locked], place)
    assert again.is_same


def test_a_skill_may_be_a_submodule_and_a_path_may_lead_into_one(
    main: Repository, other: Repository, tmp_path: Path
) -> None:
    commit = other.commit({"SKILL.md": WAVE, "more/greet/SKILL.md": GREET})
    files = {".gitmodules": gitmodules("../other.git", "skills/wave"), "README.md": "x"}
    main.commit({**files, "skills/wave": ("160000", commit)})
    for path, name in (("", "wave"), ("#:skills", "wave"), ("#:skills/wave/more", "greet")):
        [skill] = asked(f"{main.address}{path}", tmp_path).skills
        assert skill.name == name


@pytest.mark.slow
def test_submodules_over_http_are_of_the_host_that_was_typed(
    main: Repository, other: Repository, tmp_path: Path
) -> None:
    commit = other.commit({"a.txt": "a"})
    with serving_git(main.folder.parent.parent) as site:
        for url in ("../other.git", f"{site.url}/acme/other.git"):
            files = {"greet/SKILL.md": GREET, ".gitmodules": gitmodules(url)}
            main.commit({**files, "greet/vendor": ("160000", commit)})
            [greet] = asked(f"git+{site.url}/acme/skills.git", tmp_path).skills
            assert "vendor/a.txt" in greet.files
        with serving_git(main.folder.parent.parent) as elsewhere:
            files[".gitmodules"] = gitmodules(f"{elsewhere.url}/acme/other.git")
            main.commit({**files, "greet/vendor": ("160000", commit)})
            with pytest.raises(OfferError, match="of its submodule greet/vendor"):
                asked(f"git+{site.url}/acme/skills.git", tmp_path)
            assert elsewhere.requests == []


SHAPE = "is none that it may name"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        *((each, SHAPE) for each in ("/etc", "~/x.git", "ext::sh -c touch% /x", "acme/other", "a:b")),
        *((each, SHAPE) for each in ("https://me:pw@x.invalid/x.git", "https://x.invalid/x.git@main")),
        *((each, SHAPE) for each in ("../../../../../x.git", "https://-host/x.git")),
        *((each, "reached neither by https nor by ssh") for each in ("file:///etc", "git://x.invalid/x.git")),
        *((each, "127.0.0.1") for each in ("ssh://git@127.0.0.1/x.git", "git@127.0.0.1:x.git")),
        *(("https://169.254.169.254/x.git", "169.254"), ("http://127.0.0.1:1/x.git", "http")),
        *((each, "disallowed submodule url") for each in ("-u/x.git", "--upload-pack=x")),  # git says it
    ],
)
@pytest.mark.variants
def test_what_a_repository_may_not_name_is_not_asked(
    main: Repository, other: Repository, tmp_path: Path, url: str, reason: str
) -> None:
    """The repository was typed as one over HTTP, so no file of this machine is meant, either."""
    commit = other.commit({"a.txt": "a"})
    files: Files = {"greet/SKILL.md": GREET, ".gitmodules": gitmodules(url)}
    main.commit({**files, "greet/vendor": ("160000", commit)})
    with serving_git(main.folder.parent.parent) as site, pytest.raises(OfferError, match=reason) as refused:
        asked(f"git+{site.url}/acme/skills.git", tmp_path)
    assert "submodule" in str(refused.value)
    assert str(refused.value).isprintable()
    assert "pw" not in str(refused.value)


def test_no_command_of_a_gitmodules_runs(main: Repository, other: Repository, tmp_path: Path) -> None:
    commit = other.commit({"a.txt": "a"})
    mark = tmp_path / "ran"
    more = f"\tupdate = !touch {mark}\n[include]\n\tpath = /etc/passwd\n[core]\n\tfsmonitor = touch {mark}\n"
    files = {"greet/SKILL.md": GREET, ".gitmodules": gitmodules("../other.git", more=more)}
    main.commit({**files, "greet/vendor": ("160000", commit)})
    with suppress(PackageError):  # git itself may refuse such a file when it checks what it fetched
        asked(main.address, tmp_path)
    assert not mark.exists()


def test_a_submodule_of_a_submodule_and_one_without_a_url_are_refused_in_a_skill(
    main: Repository, other: Repository, tmp_path: Path
) -> None:
    commit = other.commit({"a.txt": "a"})
    inner = other.commit({"a.txt": "a", "deep": ("160000", commit)})
    main.commit({"greet/SKILL.md": GREET, "greet/vendor": ("160000", commit)})
    with pytest.raises(EntryError, match=r"those that \.gitmodules names"):
        asked(main.address, tmp_path)
    files = {"greet/SKILL.md": GREET, ".gitmodules": gitmodules("../other.git")}
    main.commit({**files, "greet/vendor": ("160000", inner)})
    with pytest.raises(EntryError, match="greet/vendor/deep: it is a submodule of a submodule"):
        asked(main.address, tmp_path)


def test_what_is_missing_is_said_with_the_name_of_the_submodule(
    main: Repository, other: Repository, tmp_path: Path
) -> None:
    other.commit({"a.txt": "a"})
    files = {"greet/SKILL.md": GREET, ".gitmodules": gitmodules("../other.git")}
    main.commit({**files, "greet/vendor": ("160000", "1" * 40)})
    with pytest.raises(OfferError, match=r"of its submodule greet/vendor|111111 is gone"):
        asked(main.address, tmp_path)


def test_there_is_a_limit_of_submodules_and_of_all_their_bytes(
    main: Repository, other: Repository, tmp_path: Path
) -> None:
    commit = other.commit({"a.bin": bytes(range(256)) * 400})
    names = [f"greet/v{number}" for number in range(MAX_SUBMODULES + 1)]
    files: dict[str, str | tuple[str, str]] = {"greet/SKILL.md": GREET}
    files[".gitmodules"] = "".join(gitmodules("../other.git", each) for each in names)
    main.commit({**files, **dict.fromkeys(names, ("160000", commit))})
    with pytest.raises(OfferError, match="17 submodules, more than 16"):
        asked(main.address, tmp_path)
    twice = gitmodules("../other.git") + gitmodules("../x.git").replace('submodule "', 'submodule "x')
    main.commit({"greet/SKILL.md": GREET, ".gitmodules": twice, "greet/vendor": ("160000", commit)})
    with pytest.raises(OfferError, match="two submodules at greet/vendor"):
        asked(main.address, tmp_path)


def test_the_bytes_of_all_together_are_bounded(main: Repository, other: Repository, tmp_path: Path) -> None:
    raw = random.Random(7).randbytes(60_000)
    commits = [other.commit({"a.bin": raw}, "a"), other.commit({"b.bin": raw[::-1]}, "b")]
    files = {
        "greet/SKILL.md": GREET,
        ".gitmodules": "".join(gitmodules("../other.git", each) for each in "ab"),
    }
    main.commit({**files, "a": ("160000", commits[0]), "b": ("160000", commits[1])})
    assert asked(main.address, tmp_path, limits=ContentLimits(max_bytes=200_000)).skills
    with pytest.raises(OfferError, match="its repository sends more than"):
        asked(main.address, tmp_path, limits=ContentLimits(max_bytes=100_000))
