"""Skills of git repositories: which commit, which files, and what a repository or its server may try."""

import base64
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from extras.packages.tests.installs import offered
from skills_agent.packages.address import Address
from skills_agent.packages.errors import EntryError, PackageError
from skills_agent.packages.git import Git
from skills_agent.packages.offer import OfferedSkill
from skills_agent.skills.library.contents import ContentLimits
from tests.git_server import SKILL, GitSite, Repository, serving_git
from tests.raw_servers import certify

GREET = SKILL.format(name="greet", text="Hello.")


Ask = Callable[..., tuple[OfferedSkill, ...]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return lambda address, *names, **options: offered(address, tmp_path, *names, **options)


def write_program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repositories" / "acme" / "skills.git")


@pytest.fixture
def site(repository: Repository) -> Iterator[GitSite]:
    with serving_git(repository.folder.parent.parent) as site:
        yield site


@pytest.mark.parametrize("ref", ["v1", "annotated", "refs/tags/v1", "release/1", "{commit}"])
@pytest.mark.variants
def test_each_kind_of_ref_means_its_commit(repository: Repository, ask: Ask, ref: str) -> None:
    commit = repository.skill()
    repository.git("tag", "v1")
    repository.git("tag", "-a", "annotated", "-m", "x")
    repository.git("branch", "release/1")
    other = repository.skill(text="Newer.")
    repository.git("update-ref", f"refs/heads/{commit}", other)  # named like a commit, and none
    [skill] = ask(f"{repository.address}@{ref.format(commit=commit)}")
    assert skill.resolved == commit
    assert "Say hello." in (skill.folder / "SKILL.md").read_text()


@pytest.mark.parametrize("ref", ["v9", "greet", "0123abc"])
def test_a_ref_that_is_not_there_is_told_from_a_skill(repository: Repository, ask: Ask, ref: str) -> None:
    repository.skill()
    with pytest.raises(PackageError, match=f"no such branch, tag or commit.*--skill NAME.*{ref}"):
        ask(f"{repository.address}@{ref}")


@pytest.mark.parametrize(
    "resolved", ["--upload-pack=touch pwned", "HEAD", "refs/heads/main", "0123", "x" * 40]
)
def test_what_a_lock_says_is_a_commit_or_nothing(repository: Repository, ask: Ask, resolved: str) -> None:
    repository.skill()
    with pytest.raises(PackageError, match="is no commit"):
        ask(repository.address, resolved=resolved)


def test_a_credential_helper_of_the_user_is_asked(
    repository: Repository, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository.skill()
    context = certify(tmp_path)
    with serving_git(tmp_path / "repositories", context) as site:
        site.authorization = f"Basic {base64.b64encode(b'me:s3cret').decode()}"
        address = f"git+{site.url}/acme/skills.git"
        with pytest.raises(PackageError, match="certificate"):
            ask(address)
        monkeypatch.setenv("GIT_SSL_CAINFO", str(tmp_path / "ca.pem"))
        with pytest.raises(PackageError, match="asks for credentials"):
            ask(address)
        helper = "!f() { echo username=me; echo password=s3cret; }; f"
        (tmp_path / "home" / ".gitconfig").write_text(f'[credential "{site.url}"]\nhelper = "{helper}"\n')
        assert ask(address)[0].resolved == commit


@pytest.mark.usefixtures("ask")
def test_git_asks_where_a_name_was_when_it_was_checked(
    repository: Repository, site: GitSite, tmp_path: Path
) -> None:
    """A name that no name server knows stands for one that means another host by now."""
    commit = repository.skill()
    port = int(site.url.rpartition(":")[2])
    url = f"http://moved.invalid:{port}/acme/skills.git"
    git = Git(Address(url, "git", url), tmp_path / "git", ["127.0.0.1"])
    assert git.run("ls-remote", "--", url, "HEAD").decode().split() == [commit, "HEAD"]


@pytest.mark.parametrize(("port", "key"), [(22, "moved.invalid"), (2222, "[moved.invalid]:2222")])
def test_ssh_does_too_and_holds_the_key_against_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int, key: str
) -> None:
    program = write_program(tmp_path / "ssh", f"printf '%s\\n' \"$@\" > {tmp_path}/arguments")
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    url = f"ssh://git@moved.invalid:{port}/x.git"
    git = Git(Address(url, "git", url), tmp_path / "git", ["192.0.2.1"])
    with pytest.raises(PackageError):
        git.run("ls-remote", "--", url)
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert {"-oHostName=192.0.2.1", f"-oHostKeyAlias={key}"} <= set(arguments)


def test_no_redirect_is_followed(repository: Repository, site: GitSite, ask: Ask, tmp_path: Path) -> None:
    repository.skill()
    with serving_git(tmp_path / "repositories") as other:
        site.leads_to = other.url
        with pytest.raises(PackageError, match="it leads elsewhere now"):
            ask(f"git+{site.url}/acme/skills.git")
        assert not other.requests


@pytest.mark.parametrize("entry", ["tools", "{here}/tools"])
def test_git_of_a_project_is_never_what_fetches(
    repository: Repository, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    write_program(tmp_path / "project/tools/git", f"touch {tmp_path}/ran")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PATH", entry.format(here=tmp_path / "project"))
    with pytest.raises(PackageError, match="git is only in"):
        ask(repository.address)
    assert not (tmp_path / "ran").exists()


def test_ssh_says_why_and_asks_nothing(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse = f"echo \"$@\" > {tmp_path}/arguments; echo 'ssh: \033[31mrefused' >&2; exit 255"
    write_program(tmp_path / "ssh", refuse)
    evil = write_program(tmp_path / "clone/bin/ssh", f"touch {tmp_path}/ran").parent  # where the person is
    monkeypatch.chdir(evil.parent)
    monkeypatch.setenv("PATH", f"{evil}:bin:{tmp_path}:{os.environ['PATH']}")
    for address in ("ssh://git@host.invalid/x.git", "git@host.invalid:x/y"):
        with pytest.raises(PackageError, match=r"git says: ssh: .*refused") as refused:
            ask(address)
        assert str(refused.value).isprintable()
        assert "-oBatchMode=yes" in (tmp_path / "arguments").read_text()
    assert not (tmp_path / "ran").exists()


def test_no_hook_or_filter_runs_and_no_attribute_counts(
    repository: Repository, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    names = ("post-checkout", "reference-transaction", "post-merge", "program")
    *_, program = [write_program(tmp_path / name, f"touch {marker}\ncat") for name in names]
    text = (
        f"[core]\nfsmonitor = {program}\nhooksPath = {tmp_path}\n"
        f'[filter "x"]\nsmudge = {program}\nprocess = {program}\nrequired = true\n'
    )
    (tmp_path / "home" / ".gitconfig").write_text(text)
    above = tmp_path / ".git"  # of a folder above the one that is worked in
    for each in ("objects", "refs"):
        (above / each).mkdir(parents=True)
    (above / "HEAD").write_text("ref: refs/heads/main\n")
    (above / "config").write_text(f'{text}[url "file:///nowhere/"]\ninsteadOf = file://\n')
    repository.commit(
        {
            ".gitattributes": "* filter=x export-ignore export-subst eol=crlf ident\n",
            "greet/SKILL.md": f"{GREET}$Id$ $Format:%H$\n",
            "greet/.gitattributes": "* export-ignore\n",
            "greet/notes.md": "one\ntwo\n",
        }
    )
    for variable in ("GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_EXEC_PATH", "GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.setenv(variable, str(program))
    [skill] = ask(repository.address)
    assert not marker.exists()
    assert sorted(skill.files) == [".gitattributes", "SKILL.md", "notes.md"]
    assert (skill.folder / "SKILL.md").read_text() == f"{GREET}$Id$ $Format:%H$\n"
    assert (skill.folder / "notes.md").read_bytes() == b"one\ntwo\n"


def test_submodules_are_refused_where_a_skill_has_them(repository: Repository, ask: Ask) -> None:
    commit = repository.commit({"greet/SKILL.md": GREET})
    repository.commit({"greet/SKILL.md": GREET, "vendor": ("160000", commit)})
    assert ask(repository.address)
    repository.commit({"greet/SKILL.md": GREET, "greet/vendor": ("160000", commit)})
    with pytest.raises(EntryError, match="greet/vendor: it is a submodule"):
        ask(repository.address)


def test_what_git_cannot_give_of_one_skill_keeps_out_no_other(repository: Repository, ask: Ask) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    files = {
        f"skills/{name}/SKILL.md": SKILL.format(name=name, text="x") for name in ("greet", "large", "con")
    }
    repository.commit({**files, "skills/large/a.bin": pointer})
    said: list[PackageError] = []
    [greet] = ask(repository.address, skip=said.append)
    assert greet.name == "greet"
    refused = sorted(str(each).split(" is refused for ")[1].split(":")[0] for each in said)
    assert refused == ["skills/con/SKILL.md", "skills/large/a.bin"]
    with pytest.raises(EntryError, match=r"a\.bin"):
        ask(repository.address, "large", skip=said.append)
    assert len(said) == 2


def test_a_path_names_the_folder_to_look_in(repository: Repository, ask: Ask) -> None:
    other = {"b/wave/SKILL.md": SKILL.format(name="wave", text="x")}
    repository.commit({"a/greet/SKILL.md": GREET, "a/README.md": "x", **other})
    assert [each.name for each in ask(f"{repository.address}#a")] == ["greet"]
    assert [each.path for each in ask(f"{repository.address}@main#b/wave")] == ["b/wave"]
    with pytest.raises(PackageError, match="there is no folder c"):
        ask(f"{repository.address}@main#c")


def test_a_pack_without_end_is_cut_off(repository: Repository, ask: Ask) -> None:
    repository.commit({"greet/SKILL.md": GREET, "greet/a.bin": os.urandom(8_000_000)})
    with pytest.raises(PackageError, match="sends more than 1,000,000 bytes"):
        ask(repository.address, limits=ContentLimits(max_bytes=1_000_000))


def test_a_server_that_never_answers_is_given_up(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skills_agent.packages.git.SECONDS", 0.3)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(PackageError, match=r"it takes longer than 0\.3 seconds"),
    ):
        ask(f"http://127.0.0.1:{silent.getsockname()[1]}/x.git")


def test_trees_that_multiply_are_cut_off(repository: Repository, ask: Ask) -> None:
    blob = repository.git("hash-object", "-w", "--stdin", given=b"x")
    kind, thing, mode = "blob", blob, "100644"
    for _ in range(8):
        lines = "".join(f"{mode} {kind} {thing}\t{letter}\n" for letter in "abcdefghij")
        thing, kind, mode = repository.git("mktree", given=lines.encode()), "tree", "040000"
    commit = repository.git("commit-tree", thing, "-m", "bomb")
    repository.git("update-ref", "refs/heads/main", commit)
    with pytest.raises(PackageError, match="more files than can be looked at"):
        ask(repository.address)
