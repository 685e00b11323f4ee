"""Scripts that leave something for a person's git, editor or agent to execute: tried for real.

Each plants a program that writes a canary; then git is really run in every folder. As this user, and (where
this one is root) as nobody.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import skills_agent.skills as domain
from extras.sandbox.tests.test_hostile_scripts import NOBODY, PATH, Host, agents, host, link_code
from skills_agent.sandbox.mounts import work_folders
from skills_agent.skills.errors import ScriptError

__all__ = ["agents", "host"]

pytestmark = pytest.mark.slow

PLANT = """
plant() {
  mkdir -p "$1/hooks"
  printf '#!/bin/sh\\ntouch "%s/canary"\\n' "$ROOT" > "$1/evil.sh" && chmod +x "$1/evil.sh"
  printf '[core]\\n\\trepositoryformatversion = 0\\n' >> "$1/config"
  printf '[core]\\n\\tfsmonitor = %s/evil.sh\\n' "$(cd "$1" && pwd)" >> "$1/config"
}
ROOT=$PWD
"""
TAKE_ITS_PLACE = "mv .git .g; cp -r .g .git; plant .git"


def git(host: Host, *arguments: str, folder: str = ".") -> str:
    """Run git as the person who opens the workspace."""
    other = host.user != os.geteuid()
    home = {"HOME": str(host.place / "home"), "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", *arguments],
        cwd=host.work / folder,
        env=home,
        capture_output=True,
        text=True,
        **({"user": host.user, "group": host.user, "extra_groups": []} if other else {}),  # type: ignore[call-overload]
    )
    return str(done.stdout + done.stderr)


@pytest.fixture(params=["script", "command"])
def by(request: pytest.FixtureRequest) -> str:
    """Return what a script is tried by."""
    return str(request.param)


@pytest.fixture
def user(by: str) -> int:
    """Return who the agent runs as: this user, and nobody in the place of root by a command."""
    is_nobody = os.geteuid() == 0 and by == "command" and Path("/usr/bin/python3").exists()
    return NOBODY if is_nobody else os.geteuid()


@pytest.fixture
def sandboxed(host: Host) -> Host:
    """Return a machine whose agent has a sandbox, and no layers."""
    host.level, host.view = "bwrap", "folder"
    return host


@pytest.fixture
def repository(host: Host, by: str) -> Host:
    """Return a machine whose workspace is a repository with another one in it."""
    host.level, host.view, host.by = "bwrap", "folder", by
    shutil.rmtree(host.work)
    (host.work / "src").mkdir(parents=True)
    host.own()
    git(host, "init", "-q")
    git(host, "commit", "-q", "--allow-empty", "-m", "x")
    for folder in ("deep/nested", "node_modules/old"):
        (host.work / folder).mkdir(parents=True)
    host.own()
    for folder in ("deep/nested", "node_modules/old"):
        git(host, "init", "-q", folder=folder)
    return host


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def places_opened_by_git(host: Host) -> list[str]:
    folders = [path for path in host.work.rglob("*") if path.is_dir() and not path.is_symlink()]
    outside = [path for path in folders if not {".git", ".agent"} & set(path.relative_to(host.work).parts)]
    return [".", *(str(path.relative_to(host.work)) for path in outside)]


def is_safe(host: Host) -> bool:
    """Run `git status` in every folder of the workspace, and tell whether nothing planted ran."""
    for folder in places_opened_by_git(host):
        git(host, "status", folder=folder)
    return not (host.work / "canary").exists()


@pytest.mark.parametrize(
    "attack",
    [
        TAKE_ITS_PLACE,
        "plant .git",
        "rm -rf .git; mkdir .git; plant .git",
        "cd deep/nested; " + TAKE_ITS_PLACE,
        "mv deep d; cp -r d deep; plant deep/nested/.git",
        "cd deep; mv nested n; mkdir nested; cp -r n/.git nested/.git; plant nested/.git",
        "mkdir new; cp -r .git new/.git; plant new/.git",
        "mkdir -p a/b/c; cp -r .git a/b/c/; plant a/b/c/.git; chmod 311 a/b/c a/b a",
        "mkdir -p a; cp -r .git a/.git; plant a/.git; chmod 500 a a/.git",
        "mkdir -p node_modules/a; cp -r .git node_modules/a/.git; plant node_modules/a/.git",
        "plant node_modules/old/.git; mkdir lib; mv node_modules/old lib; plant lib/old/.git",
        "cp -r .git store; plant store; echo 'gitdir: ../store' > src/.git",
        "cp -r .git src/x; plant src/x; ln -s x src/.git",
        "cp -r .git bare; rm -f bare/index; plant bare; git -C bare config core.worktree ..",
        "echo ../elsewhere > .git/commondir; cp -r .git elsewhere; plant elsewhere",
    ],
)
def test_nothing_that_a_script_plants_is_executed_by_git(repository: Host, attack: str) -> None:
    assert is_safe(repository)
    repository.run(PLANT + attack)
    assert is_safe(repository)
    assert "On branch" in git(repository, "status")
    assert "On branch" in git(repository, "status", folder="deep/nested")


@pytest.mark.parametrize(
    "attack", ["git init -q . ; plant .git", "mkdir .git; plant .git", "echo gitdir: x > .git"]
)
def test_where_there_is_no_repository_none_is_made(sandboxed: Host, attack: str) -> None:
    shutil.rmtree(sandboxed.work)
    sandboxed.work.mkdir()
    sandboxed.run(PLANT + attack)
    assert is_safe(sandboxed)
    assert not (sandboxed.work / ".git").exists()


def test_a_worktree_keeps_its_pointer_and_its_repository(sandboxed: Host) -> None:
    shutil.rmtree(sandboxed.work)
    (sandboxed.work / "main").mkdir(parents=True)
    sandboxed.own()
    git(sandboxed, "init", "-q", folder="main")
    git(sandboxed, "commit", "-q", "--allow-empty", "-m", "x", folder="main")
    shutil.move(sandboxed.work / "main/.git", sandboxed.work / "store")
    (sandboxed.work / "main").rmdir()
    (sandboxed.work / ".git").write_text("gitdir: store\n")
    sandboxed.own()
    assert "On branch" in git(sandboxed, "status")
    result = sandboxed.run(
        PLANT + "plant store; rm .git; echo 'gitdir: store' > .git; mv store s; cp -r s store; plant store"
    )
    assert "Read-only" in result["stderr"]
    assert is_safe(sandboxed)
    assert "On branch" in git(sandboxed, "status")


def test_hooks_that_the_configuration_names_are_read_only(repository: Host) -> None:
    git(repository, "config", "core.hooksPath", "tools/hooks")
    (repository.work / "tools/hooks").mkdir(parents=True)
    result = repository.run("echo x > tools/hooks/pre-commit; mv tools t")
    assert "Read-only" in result["stderr"]
    assert not list((repository.work / "tools/hooks").iterdir())


def test_programs_and_more_configuration_that_git_is_told_of_are_read_only(repository: Host) -> None:
    """In the configuration, in what it includes, in a worktree's own, and in the user's for all."""
    for folder in ("tools", "conf", "hooks", "everywhere"):
        (repository.work / folder).mkdir()
    for name in ("clean", "diff", "pager", "alias"):
        (repository.work / f"tools/{name}.sh").write_text("mine")
    (repository.work / "conf/a").write_text("[include]\npath = b\n[include]\npath = missing\n")
    (repository.work / "conf/b").write_text('[diff "x"]\n\ttextconv = "tools/diff.sh" --all\n')
    (repository.place / "home/.gitconfig").write_text("[core]\n\thooksPath = everywhere\n")
    for key, value in {
        "include.path": "../conf/a",
        "filter.x.clean": "./tools/clean.sh %f",
        "core.pager": "tools/pager.sh | less",
        "alias.st": "!tools/alias.sh",
        "extensions.worktreeConfig": "true",
    }.items():
        git(repository, "config", key, value)
    (repository.work / ".git/config.worktree").write_text("[core]\n\thooksPath = hooks\n")
    result = repository.run(
        "for each in tools/* conf/a conf/b hooks/x everywhere/x; do echo evil > $each && echo OPEN; done\n"
        "echo evil > conf/missing; for each in tools conf hooks everywhere; do mv $each x; done; echo > new"
    )
    assert result["stdout"] == ""
    assert "evil" not in "".join(each.read_text() for each in (repository.work / "tools").iterdir())
    assert names_in(repository.work / "conf") == ["a", "b"]
    assert names_in(repository.work) == sorted(
        [".agent", ".git", "conf", "deep", "everywhere", "hooks", "new", "node_modules", "src", "tools"]
    )


@pytest.mark.parametrize("level", ["controlled", "bwrap"])
def test_what_a_script_makes_for_other_programs_is_taken_back_and_told(sandboxed: Host, level: str) -> None:
    sandboxed.level = level
    (sandboxed.work / ".envrc").write_text("mine")
    own = sandboxed.work / ".agent/work/mine"
    result = sandboxed.run(
        f"cd {sandboxed.work}; echo evil > .envrc || true; cd {own}; ln -s /etc out; echo x > fine",
        workdir=own,
    )
    assert (sandboxed.work / ".envrc").read_text() == "mine"
    assert names_in(own) == ["fine"]
    assert "out (it leads out, to /etc)" in " ".join(result["notices"])
    assert any(".envrc" in notice for notice in result["notices"]) is (
        level == "controlled"
    )  # else read-only


@pytest.mark.parametrize("count", [1, 150])
def test_files_with_names_elsewhere_are_read_only_in_the_folder_itself(sandboxed: Host, count: int) -> None:
    """As those of pnpm, uv and Bun, which are the same in the cache of the user."""
    store = sandboxed.place / "outside/store"
    for file in (store, sandboxed.work / "node_modules/.pnpm/a/x0", sandboxed.work / "mine"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    os.link(sandboxed.work / "mine", sandboxed.work / "node_modules/mine")
    for number in range(count):
        os.link(store, sandboxed.work / f"node_modules/.pnpm/a/x{number + 1}")
    sandboxed.run("cd node_modules; echo evil | tee .pnpm/a/x* mine > new; mv .pnpm p")
    assert store.read_text() == ""
    assert (sandboxed.work / "mine").read_text() == "evil\n"
    assert names_in(sandboxed.work / "node_modules") == [".pnpm", "mine", "new"]


def test_more_repositories_than_can_be_kept_from_a_script_refuse_the_run(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="workdir = thread"):
        work_folders(tmp_path, {}, {tmp_path: [f"p{number}/.git" for number in range(301)]})


def test_the_agents_own_package_in_the_workspace_is_not_changed(sandboxed: Host) -> None:
    """An editable install whose workspace is the clone."""
    clone = sandboxed.work / "clone/skills"
    shutil.copytree(Path(domain.__file__).parent, clone, ignore=shutil.ignore_patterns("__pycache__"))
    code = sandboxed.place / "path"
    link_code(code, without="skills")
    (code / "skills_agent/skills").symlink_to(clone)
    evil = f"open('{sandboxed.place}/canary', 'w')"
    attack = f'echo "{evil}" >> clone/skills/errors.py; mv clone/skills clone/s; mv clone c; cp -r c clone'
    body = f'{attack}; echo "{evil}" >> clone/skills/errors.py; touch clone/fine; echo done'
    for code_is_tried in (body, "echo again"):
        with sandboxed.started(code_is_tried, code) as agent:
            result = agent.answer()
        assert result["stdout"] in {"done\n", "again\n"}
        assert "Read-only" in result["stderr"] or code_is_tried != body
    assert not (sandboxed.place / "canary").exists()
    assert (sandboxed.work / "clone/fine").exists()


def test_an_environment_that_is_in_path_is_not_changed(sandboxed: Host) -> None:
    names = ["bin/bwrap", "bin/prlimit", "lib/python3/site-packages/sitecustomize.py"]
    for folder in ("bin", "lib/python3/site-packages"):
        (sandboxed.work / ".venv" / folder).mkdir(parents=True)
    (sandboxed.work / ".venv/pyvenv.cfg").touch()
    sandboxed.path = f"{sandboxed.work}/.venv/bin:{sandboxed.work}/tools:{PATH}"
    attack = "; ".join(f"echo evil > .venv/{name}" for name in names)
    result = sandboxed.run(f"{attack}; mv .venv v; mkdir tools; echo evil > tools/bwrap; echo done")
    assert result["stdout"] == "done\n"
    assert [name for name in names if (sandboxed.work / ".venv" / name).exists()] == []
    assert not (sandboxed.work / "tools").exists()
    assert "tools" in result["notices"][0]
