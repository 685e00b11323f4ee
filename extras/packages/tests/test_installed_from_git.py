"""Skills of a git server, as a person and as CI have them: moved tags, updates, credentials."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from skills_agent.packages.credentials import split_credentials
from tests.git_server import GitSite, Repository, serving_git
from tests.graph.cli.command_line import CommandLine


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repositories" / "acme.git")


@pytest.fixture
def site(repository: Repository) -> Iterator[GitSite]:
    with serving_git(repository.folder.parent) as site:
        yield site


def test_a_moved_tag_fails_in_ci_and_is_taken_by_update(
    cli: CommandLine, repository: Repository, site: GitSite
) -> None:
    old = repository.skill()
    repository.git("tag", "v1")
    address = f"git+{site.url}/acme.git@v1"
    assert cli.run("skills", "install", address, "--yes").code == 0
    assert cli.run("skills", "sync", "--frozen").code == 0
    new = repository.skill(text="Newer.")
    assert cli.run("skills", "sync", "--frozen").code == 0  # the tag is where it was
    repository.git("tag", "--force", "v1", new)
    done = cli.run("skills", "sync", "--frozen")
    assert done.code == 1
    assert f"greet: v1 of {address} has moved: it was {old[:12]} and is {new[:12]}" in done.out
    assert f"greet  {old[:12]} -> {new[:12]}" in cli.run("skills", "outdated").out
    done = cli.run("skills", "update", "--yes")
    assert done.code == 0
    assert old[:12] in done.out
    assert new[:12] in done.out
    assert cli.run("skills", "sync", "--frozen").code == 0


def test_sync_fetches_the_commit_of_the_lock_whatever_the_tag_means(
    cli: CommandLine, repository: Repository, site: GitSite
) -> None:
    repository.skill()
    assert cli.run("skills", "install", f"git+{site.url}/acme.git@main", "--yes").code == 0
    repository.skill(text="Newer.")
    skill = cli.workspace / ".agent" / "skills" / "greet" / "SKILL.md"
    before = skill.read_text()
    skill.write_text("changed")
    assert cli.run("skills", "sync", "--yes").code == 0
    assert skill.read_text() == before


@pytest.mark.parametrize("secret", ["me:s3cret", "s3cret"])
@pytest.mark.variants
def test_credentials_are_in_no_lock_no_output_and_no_error(
    cli: CommandLine, repository: Repository, site: GitSite, secret: str
) -> None:
    repository.skill()
    site.authorization = split_credentials(f"http://{secret}@h").authorization
    address = f"git+{site.url.replace('//', f'//{secret}@')}/acme.git"
    done = cli.run("skills", "install", address, "--yes")
    assert done.code == 0
    lock = (cli.workspace / ".agent" / "skills" / "skills.lock").read_text()
    site.authorization = "Basic other"
    outputs = [done, cli.run("skills", "install", address, "--yes"), cli.run("skills", "sync", "--frozen")]
    outputs += [cli.run("skills", "outdated"), cli.run("skills", "verify")]
    assert [each.code for each in outputs[1:3]] == [1, 1]
    assert "asks for credentials" in outputs[1].err
    for text in (lock, *(each.out + each.err for each in outputs)):
        assert "s3cret" not in text
