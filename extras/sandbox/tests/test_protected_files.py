"""Scripts that leave something for a person's git, editor or agent to execute: tried for real.

Each plants a program that writes a canary; then git is really run in every folder. As this user, and (where
this one is root) as nobody.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import skills_agent.skills as domain
from extras.sandbox.tests.test_hostile_scripts import NOBODY, PATH, Host, agents, host, link_code
from skills_agent.sandbox import choice
from skills_agent.sandbox.protected_files import ProtectedFiles
from skills_agent.sandbox.watch import Watch
from skills_agent.sandbox.watched import WatchedRunner
from skills_agent.skills.confined import OutsideRootError
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from tests.waiting import PATIENCE, until

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
    (host.work / "deep/nested").mkdir(parents=True)
    host.own()
    git(host, "init", "-q", folder="deep/nested")
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
        [".agent", ".git", "conf", "deep", "everywhere", "hooks", "new", "src", "tools"]
    )


OBEYED = (
    *(".envrc", ".vscode/tasks.json", ".github/workflows/x.yml", ".husky/pre-commit", "CLAUDE.md"),
    *(".agents/skills/x/SKILL.md", "deep/.idea/x", ".pre-commit-config.yaml", ".claude/settings.json"),
)


def test_what_other_programs_obey_is_not_changed(repository: Host) -> None:
    attacks = []
    for at, path in enumerate(OBEYED):
        obeyed, top, above = repository.work / path, Path(path).parts[0], Path(path).parent
        obeyed.parent.mkdir(parents=True, exist_ok=True)
        obeyed.write_text("mine")
        attacks.append(
            f"echo evil > {path}; rm -rf {path}; mv {top} x{at}; mkdir -p {above}; echo evil > {path}"
        )
    result = repository.run("\n".join(attacks))
    assert [path for path in OBEYED if (repository.work / path).read_text() != "mine"] == []
    assert len(re.findall("Read-only|busy", result["stderr"])) >= 3 * len(OBEYED)
    assert not result["notices"]


def test_what_a_script_makes_for_them_is_put_aside_and_kept(repository: Host) -> None:
    attacks = [f"mkdir -p {Path(path).parent}; echo {path} > {path}" for path in OBEYED]
    result = repository.run("\n".join([*attacks, "echo fine > src/out.txt"]))
    assert [path for path in OBEYED if (repository.work / path).exists()] == []
    assert (repository.work / "src/out.txt").read_text() == "fine\n"
    kept = [each for each in (repository.work / ".agent/quarantine").rglob("*") if each.is_file()]
    assert {f"{path}\n" for path in OBEYED} <= {each.read_text() for each in kept}
    (notice,) = result["notices"]
    assert ".agent/quarantine/" in notice
    assert all(Path(path.removeprefix("deep/")).parts[0] in notice for path in OBEYED)


def test_a_link_that_was_replaced_is_put_back(repository: Host) -> None:
    (repository.work / "shared").mkdir()
    (repository.work / "shared/tasks.json").write_text("{}")
    (repository.work / ".vscode").symlink_to("shared")
    result = repository.run(
        "echo evil > shared/tasks.json; rm .vscode; mkdir .vscode; echo evil > .vscode/tasks.json"
    )
    assert (repository.work / ".vscode").readlink() == Path("shared")
    assert (repository.work / ".vscode/tasks.json").read_text() == "{}"
    assert result["notices"]


def test_a_link_on_the_way_to_what_is_obeyed_is_put_back(repository: Host) -> None:
    for folder in ("real", "a/gh", "b/gh"):
        (repository.work / folder).mkdir(parents=True)
    for link, target in {"one": "real", ".vscode": "one", "two": "a", ".github": "two/gh"}.items():
        (repository.work / link).symlink_to(target)
    (repository.work / ".envrc").symlink_to("src/envrc")
    result = repository.run(
        "rm one; mkdir one; echo evil > one/tasks.json; rm two; ln -s b two; echo evil > b/gh/x.yml\n"
        "echo evil > src/envrc"
    )
    assert [(repository.work / each).readlink() for each in ("one", "two")] == [Path("real"), Path("a")]
    assert not (repository.work / ".vscode/tasks.json").exists()
    assert not (repository.work / ".github/x.yml").exists()
    assert not (repository.work / ".envrc").exists()
    assert "one, src/envrc, two" in result["notices"][0]


def test_a_file_that_is_obeyed_is_not_changed_by_its_other_name(repository: Host) -> None:
    for name in (".envrc", ".npmrc"):
        (repository.work / name).write_text("mine")
        os.link(repository.work / name, repository.work / f"other{name}")
    result = repository.run("rm other.envrc; echo evil > other.npmrc; rm other.npmrc")
    assert (repository.work / ".envrc").read_text() == "mine"
    assert not (repository.work / ".npmrc").exists()
    assert "The script made .npmrc," in result["notices"][0]


def test_a_repository_in_a_folder_of_packages_is_put_aside_if_the_run_changed_it(repository: Host) -> None:
    names = ("node_modules/a", "lib/site-packages", "__pycache__", ".tox/py")
    folders = [repository.work / name for name in names]
    for folder in folders:
        for name in ("mine", "old"):
            (folder / name).mkdir(parents=True)
            repository.own()
            git(repository, "init", "-q", folder=str(folder / name))
        (folder / ".eslintrc").touch()
    assert is_safe(repository)
    attack = "cp -r old new; plant old/.git; plant new/.git; git init -q --bare b; plant b"
    repository.run("\n".join([PLANT, *(f"cd {folder}; {attack}" for folder in folders)]))
    assert is_safe(repository)
    for folder in folders:
        assert names_in(folder / "mine") == [".git"]
        assert not (folder / "old/.git").exists()
        assert not (folder / "b/HEAD").exists()


def test_a_script_writes_exactly_the_path_that_was_approved(repository: Host) -> None:
    (repository.work / ".github/workflows").mkdir(parents=True)
    (repository.work / ".github/workflows/old.yml").write_text("mine")
    body = "cd .github; touch x; for each in ci evil old; do echo $each > workflows/$each.yml; done"
    repository.run(body, writable=[".github/workflows/ci.yml"])
    assert names_in(repository.work / ".github/workflows") == ["ci.yml", "old.yml"]
    assert (repository.work / ".github/workflows/old.yml").read_text() == "mine"
    assert names_in(repository.work / ".github") == ["workflows"]


def test_an_approved_path_may_be_made_where_nothing_was(repository: Host) -> None:
    body = "mkdir -p .github/workflows; echo new > .github/workflows/ci.yml; echo evil > .github/evil.yml"
    repository.run(body, writable=[".github/workflows/ci.yml"])
    assert (repository.work / ".github/workflows/ci.yml").read_text() == "new\n"
    assert not (repository.work / ".github/evil.yml").exists()


WAYS_OUT = {
    "out": "/etc", "deep/out": "../../outside/made", "shell": "../home/.bashrc", "tmp": "/tmp/x",
    "node_modules/a/out": "/etc/passwd", "new/__pycache__/out": "/etc", "chain": "out/hosts",
    "key": "../home/.ssh/id_rsa", "folder": "..", "src/up": "../..", "name with blank": "/root",
    ".agent-out": "/etc", "library": "/usr/lib",
}  # fmt: skip
WAYS_IN = {"in": "src", "src/in": "../deep/nested", "dangling": "nowhere", "python": "/usr/bin/env"}


def test_a_link_that_leads_out_is_told_and_not_left(repository: Host) -> None:
    (repository.work / "mine").symlink_to("/etc")
    links = [
        f"mkdir -p '{Path(name).parent}'; ln -s '{to}' '{name}'" for name, to in (WAYS_OUT | WAYS_IN).items()
    ]
    result = repository.run("\n".join(links) + "\necho yes > in/written")
    assert [name for name in WAYS_OUT if os.path.lexists(repository.work / name)] == []
    assert [name for name in WAYS_IN if not os.path.lexists(repository.work / name)] == []
    assert (repository.work / "mine").readlink() == Path("/etc")
    assert (repository.work / "src/written").exists()
    (notice,) = result["notices"]
    assert "links out of the folder" in notice
    assert "chain (to out/hosts)" in notice
    assert "mine" not in notice
    repository.run("rm mine; ln -s /etc/hosts mine")
    assert not (repository.work / "mine").is_symlink()


def test_a_link_out_of_a_threads_own_folder_is_not_left_either(sandboxed: Host) -> None:
    work = sandboxed.work / ".agent/work/mine"
    (sandboxed.work / "data").write_text("of the workspace")
    result = sandboxed.run("ln -s /etc out; ln -s ../../../data data", workdir=work)
    assert names_in(work) == ["data"]
    assert "out (to /etc)" in result["notices"][0]


@pytest.mark.parametrize(
    "folder", ["src/__pycache__", "node_modules/a/__pycache__", "lib/site-packages/b/__pycache__"]
)
def test_what_a_script_writes_into_caches_of_python_is_not_left(repository: Host, folder: str) -> None:
    """Python would run it in the place of the code that a person sees."""
    cache, other = repository.work / folder, repository.work / "deep/__pycache__"
    for each in (cache, other):
        each.mkdir(parents=True)
        (each / "m.cpython-311.pyc").write_text("mine")
    above = cache.parent
    (above / "m.py").write_text("x = 1")
    result = repository.run(
        f"printf evil > {folder}/m.cpython-311.pyc; mkdir -p new/__pycache__ linked evil\n"
        "echo evil > new/__pycache__/n.pyc; chmod 000 new/__pycache__\n"
        "ln -s ../evil linked/__pycache__; echo evil > evil/m.pyc"
    )
    assert not names_in(cache)
    assert not names_in(repository.work / "new/__pycache__")
    assert not os.path.lexists(repository.work / "linked/__pycache__")
    assert (other / "m.cpython-311.pyc").read_text() == "mine"
    assert result["notices"] == []
    assert not list((repository.work / ".agent/quarantine").glob("2*"))


def test_what_is_too_deep_to_be_looked_at_is_said(repository: Host) -> None:
    body = "import os\nfor _ in range(40): os.mkdir('d' * 200); os.chdir('d' * 200)\nos.mkdir('.git')"
    result = repository.run(body)
    assert "were not looked at" in result["notices"][0]


def test_a_quarantine_that_the_workspace_brought_is_not_used(repository: Host) -> None:
    (repository.work / ".agent").mkdir()
    (repository.work / ".agent/quarantine").symlink_to(repository.place / "outside")
    result = repository.run("echo evil > .envrc")
    assert not (repository.work / ".envrc").exists()
    assert not list((repository.place / "outside").iterdir())
    assert ".agent/quarantine-" in result["notices"][0]


def test_more_places_than_can_be_held_refuse_the_run(repository: Host) -> None:
    for number in range(301):
        (repository.work / f"p{number}").mkdir()
        (repository.work / f"p{number}/.envrc").touch()
    assert "workdir = thread" in repository.run("echo OPEN")["refused"]


def test_a_name_as_long_as_can_be_is_put_aside(repository: Host) -> None:
    name = ".aider" + "x" * 249
    repository.run(f"echo evil > {name}")
    assert not (repository.work / name).exists()


def test_a_threads_own_folder_is_looked_at_too(sandboxed: Host) -> None:
    body = PLANT + "git init -q r; plant r/.git; echo evil > .envrc; echo fine > out.txt"
    result = sandboxed.run(body, workdir=sandboxed.work / ".agent/work/mine")
    assert names_in(sandboxed.work / ".agent/work/mine") == ["out.txt", "r"]
    assert not list((sandboxed.work / ".agent/work/mine/r").iterdir())
    assert result["notices"]


@pytest.mark.parametrize("link", ["other", "sub/.."])
def test_nothing_outside_is_moved_or_opened_when_another_script_swaps_a_folder(
    tmp_path: Path, link: str
) -> None:
    """It puts a link where a look found a folder."""
    workspace, outside = tmp_path / "work", tmp_path / "outside"
    (workspace / "a/sub").mkdir(parents=True)
    (outside / "other/.git").mkdir(parents=True)
    (outside / "other/.git/HEAD").touch()
    (outside / "other").chmod(0o500)
    watch = Watch(workspace, ProtectedFiles(workspace), ())
    (workspace / "a/sub/.git").write_text("gitdir: x")
    (workspace / ".envrc").touch()
    made = watch.made_since(0, ())
    shutil.rmtree(workspace / "a")
    (workspace / "a").symlink_to(outside)
    with pytest.raises((NotADirectoryError, OutsideRootError)):
        watch.put_aside(workspace, [*made, f"a/{link}/.git"])
    assert (outside / "other/.git/HEAD").exists()
    assert (outside / "other").stat().st_mode & 0o777 == 0o500
    assert not (workspace / ".envrc").exists()


def killed_in_a_run(host: Host) -> None:
    """Have a script plant what git and a shell obey, and kill its agent meanwhile."""
    body = (
        f"{PLANT}cp -r .git src/.git; plant src/.git; echo evil > .envrc; ln -s /etc out\n"
        "touch made; sleep 600"
    )
    with host.started(body, timeout=PATIENCE):
        until((host.work / "made").exists)


def test_what_a_script_made_while_its_agent_was_killed_is_put_aside_at_the_next_start(
    repository: Host,
) -> None:
    killed_in_a_run(repository)
    assert [choice.pending_looks(repository.records) for _ in range(2)] == [1, 1]
    result = repository.run("echo fine")
    assert choice.pending_looks(repository.records) == 0
    assert is_safe(repository)
    assert not (repository.work / ".envrc").exists()
    assert not (repository.work / "src/.git").exists()
    assert not (repository.work / "out").is_symlink()
    assert "out (to /etc)" in result["notices"][1]
    assert "cut off with the agent made .envrc, src/.git" in result["notices"][0]
    assert "put aside" in result["notices"][0]
    assert repository.run("echo again")["notices"] == []
    assert not list(repository.records.glob("*.json"))


def test_what_came_when_the_script_was_gone_is_reported_and_stays(repository: Host) -> None:
    """It may be the person's."""
    killed_in_a_run(repository)
    (record,) = repository.records.glob("*.json")
    os.utime(record, (0, 0))
    result = repository.run("echo fine")
    assert (repository.work / ".envrc").exists()
    assert ".envrc, src/.git came or changed" in result["notices"][0]


def test_a_run_that_goes_on_is_not_taken_for_one_that_was_cut_off(repository: Host) -> None:
    body = "mkdir n; echo evil > n/.envrc; touch made; until [ -e go-on ]; do sleep 0.05; done; echo done"
    with repository.started(body, timeout=PATIENCE) as agent:
        until((repository.work / "made").exists)
        assert choice.pending_looks(repository.records) == 0
        other = repository.run("echo fine")
        assert not any("cut off" in notice for notice in other["notices"])
        (repository.work / "go-on").touch()
        assert agent.answer()["stdout"] == "done\n"


def test_a_damaged_record_of_a_run_stops_nothing(repository: Host) -> None:
    for at, text in enumerate(["", "{}", "[1]", '["/", "x", 1, {}]', "[" * 100_000]):
        (repository.records / f"bwrap-{at}.json").write_text(text)
    assert repository.run("echo fine")["notices"] == []
    assert not list(repository.records.glob("*.json"))


def test_without_a_sandbox_git_executes_what_was_planted(repository: Host) -> None:
    repository.level = "controlled"
    repository.run(PLANT + TAKE_ITS_PLACE)
    assert not is_safe(repository)


def test_without_a_sandbox_a_threads_own_folder_is_looked_at_too(host: Host) -> None:
    result = host.run("echo evil > .envrc", workdir=host.work / ".agent/work/mine")
    assert ".envrc" in result["notices"][0]


def test_without_a_sandbox_it_is_reported(repository: Host) -> None:
    repository.level = "controlled"
    result = repository.run("mkdir n; git init -q n/r; echo x > .envrc")
    assert ".envrc, n/r/.git" in result["notices"][0]
    assert (repository.work / "n/r/.git").exists()


def test_nothing_is_said_about_a_run_that_makes_none(repository: Host) -> None:
    result = repository.run("mkdir n; echo x > n/.gitignore; git status >/dev/null; echo y > x.env")
    assert result["notices"] == []
    assert (repository.work / "n/.gitignore").exists()
    assert not (repository.work / ".agent/quarantine").exists()


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


def run_plainly(workdir: Path, line: str) -> ScriptResult:
    request = ScriptRequest("", None, ("sh", "-c", line), None, workdir)
    return WatchedRunner(environment={"PATH": PATH}).run(request)


def test_without_a_sandbox_a_link_that_leads_out_is_told_and_not_left(tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to("/etc")
    result = run_plainly(
        tmp_path, "mkdir d; ln -s /etc out; ln -s ../.. d/up; ln -s d in; echo x > in/written"
    )
    assert [os.path.lexists(tmp_path / each) for each in ("out", "d/up", "in", "mine")] == [0, 0, 1, 1]
    assert (tmp_path / "d/written").exists()
    (notice,) = result.notices
    assert "d/up (to ../..), out (to /etc)" in notice or "out (to /etc), d/up (to ../..)" in notice
