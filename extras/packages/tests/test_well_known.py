"""Sites that list their skills, and what such lists may try."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from extras.packages.tests.installs import offered, plain_zip
from skills_agent.packages.errors import PackageError
from skills_agent.packages.offer import OfferedSkill
from skills_agent.packages.well_known import MAX_ENTRIES, SCHEMA
from tests.git_server import SKILL
from tests.web_server import WebFolder, serving

Skip = Callable[[PackageError], None]
GREET = SKILL.format(name="greet", text="Hello.").encode()
NEW = ".well-known/agent-skills"


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Site:
    """A site, and what somebody asks of it."""

    def __init__(self, root: Path, web: WebFolder) -> None:
        self.root, self.web = root, web

    def put(self, path: str, content: bytes | Any) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())

    def lists(self, *skills: dict[str, Any], **more: Any) -> None:
        self.put(f"{NEW}/index.json", {"$schema": SCHEMA, "skills": list(skills), **more})

    def ask(
        self, path: str = "", *names: str, resolved: str = "", skip: Skip | None = None
    ) -> tuple[OfferedSkill, ...]:
        return offered(f"{self.web.url}{path}", self.root, *names, resolved=resolved, skip=skip)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "site").mkdir()
    with serving(tmp_path / "site") as web:
        site = Site(tmp_path / "site", web)
        site.put(f"{NEW}/greet.md", GREET)
        site.lists(entry())
        yield site


def entry(content: bytes = GREET, **more: Any) -> dict[str, Any]:
    digest = f"sha256:{sha(content)}"
    return {"name": "greet", "type": "skill-md", "url": "greet.md", "digest": digest, **more}


def test_a_skill_md_and_an_archive_are_offered_with_what_they_were_resolved_to(site: Site) -> None:
    archive = plain_zip({"SKILL.md": SKILL.format(name="wave", text="Hello.").encode()})
    site.lists(entry(), entry(archive, name="wave", type="archive", url="/files/wave.zip"))
    site.put("files/wave.zip", archive)
    greet, waved = site.ask()
    assert greet.resolved == f"{site.web.url}/{NEW}/greet.md#sha256={sha(GREET)}"
    assert waved.resolved == f"{site.web.url}/files/wave.zip#sha256={sha(archive)}"
    site.web.requests.clear()
    assert [each.name for each in site.ask("", "wave")] == ["wave"]
    assert not [each for each in site.web.requests if "greet" in each]


def test_what_was_resolved_is_fetched_without_the_list(site: Site) -> None:
    [first] = site.ask()
    site.lists()
    [again] = site.ask("", "greet", resolved=first.resolved)
    assert again._replace(folder=first.folder, metadata=first.metadata) == first
    site.put(f"{NEW}/greet.md", GREET + b"evil")
    with pytest.raises(PackageError, match="is not what its digest says"):
        site.ask("", "greet", resolved=first.resolved)
    with pytest.raises(PackageError, match="it has one skill, and not greet, wave"):
        site.ask("", "greet", "wave", resolved=first.resolved)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"digest": ""}, "cannot be read"),
        ({"digest": "sha256:" + "0" * 64}, "is not what its digest says"),
        ({"digest": "md5:" + "0" * 32}, "cannot be read"),
        ({"url": ""}, "is not what its digest says"),
        ({"type": "npm"}, "cannot be read"),
        ({"name": "../up"}, "no name of a skill"),
        ({"name": "wave"}, "its list says wave, and what is there holds"),
        ({"name": 3}, "cannot be read"),
        ({"url": "file:///etc/passwd"}, "only http:// and https:// are"),
        ({"url": "http://169.254.169.254/x"}, "is no https://"),
        ({"url": "//localhost/x"}, "is no https://"),
        ({"url": "https://localhost/x"}, "no public address"),
        ({"url": "http://[::1"}, "no URL|cannot be read"),
        ({"url": "https://u:p@example.invalid/x"}, "."),
        ({"url": "gone.md"}, "HTTP 404"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused(site: Site, change: dict[str, Any], reason: str) -> None:
    site.lists(entry(**change))
    with pytest.raises(PackageError, match=reason) as refused:
        site.ask()
    assert str(refused.value).isprintable()


def test_an_entry_that_does_not_fit_keeps_out_no_other(site: Site) -> None:
    site.lists(entry(), {"name": 3}, entry(name="-x"), entry(name="wave"), entry(name="lost", url="gone.md"))
    said: list[PackageError] = []
    assert [each.name for each in site.ask(skip=said.append)] == ["greet"]
    assert len(said) == 4
    assert [each.name for each in site.ask("", "greet")] == ["greet"]


NEWER = {"$schema": "https://schemas.agentskills.io/discovery/9/x\u202e", "skills": [entry()]}


@pytest.mark.parametrize(
    "index", [b"<html>", b"[" * 100_000, b"[]", b"{}", b'{"skills": {}}', b"\xff", NEWER], ids=range(7)
)
def test_what_is_no_list_that_is_known_here_is_said(site: Site, index: Any) -> None:
    site.put(f"{NEW}/index.json", index)
    with pytest.raises(PackageError, match="lists no skills") as refused:
        site.ask()
    assert str(refused.value).isprintable()


def test_lists_are_bounded(site: Site) -> None:
    site.lists(*({**entry(), "name": f"s{number}"} for number in range(101)))
    with pytest.raises(PackageError, match="name those that you want"):
        site.ask()
    site.lists(*([entry()] * (MAX_ENTRIES + 1)))
    with pytest.raises(PackageError, match="at most 2,000"):
        site.ask()
    site.lists(entry(), entry())
    with pytest.raises(PackageError, match="lists greet twice"):
        site.ask()
    site.put(f"{NEW}/index.json", b" " * 5_000_000)
    with pytest.raises(PackageError, match="has more than 4,000,000 bytes"):
        site.ask()


def test_a_path_is_asked_at_that_path_alone(site: Site) -> None:
    site.put(f"team/{NEW}/index.json", {"$schema": SCHEMA, "skills": [entry()]})
    site.put(f"team/{NEW}/greet.md", GREET)
    assert f"/team/{NEW}/greet.md" in site.ask("/team")[0].resolved
    assert site.ask(f"/team/{NEW}/index.json")
    with pytest.raises(PackageError, match="there is no list of skills"):
        site.ask("/other")
