"""Where git's commands write, which only read, and which run nothing but git."""

import os
from pathlib import Path

import pytest

from skills_agent.shell.command_line import command_request
from skills_agent.shell.git_commands import git_write
from skills_agent.shell.protected import protected_in_command
from skills_agent.skills.errors import ScriptError


def opened(workspace: Path, command: str, cwd: str = "") -> set[str]:
    """Return what a command may write beneath the workspace, once it is approved."""
    found = protected_in_command(command, workspace, cwd=cwd)
    return {str(each.place.relative_to(workspace)) for each in found if each.place}


def why(workspace: Path, command: str) -> str:
    """Return why a line is refused before anybody is asked; it opens nothing in any case."""
    assert not opened(workspace, command)
    try:
        request = command_request(command, workspace=workspace)
    except ScriptError as error:
        return str(error)
    assert not request.repository
    return ""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for folder in (".git", "sub", "inner/.git"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ("git commit -m x", ".git"), ("git -C sub stash", ".git"), ("git checkout -b new", ".git"),
        ("git --no-pager -c user.name=a commit -m x", ".git"), ("git branch -d old", ".git"),
        ("git config user.name a", ".git"), ("git config --local --unset user.name", ".git"),
        ("git remote add o url", ".git"), ("git config branch.main.remote o", ".git"),
        ("git commit -m x 2>&1 >/dev/null", ".git"), ("git -C inner commit -m x", "inner/.git"),
        ("git init new", "new/.git"), ("git init -q -b main .", ".git"), ("git -C sub init", "sub/.git"),
        ("git merge --no-ff main", ".git"), ("git rebase --autosquash main", ".git"),
        ("cd inner && git add x", "inner/.git"), ("git mv sub x inner", ".git"), ("git mv .. x", ".git"),
    ],
)  # fmt: skip
def test_one_git_command_is_a_program_of_its_own_and_opens_its_repository(
    repository: Path, command: str, place: str
) -> None:
    assert place in opened(repository, command)
    request = command_request(command, workspace=repository)
    assert request.repository == repository / place
    assert request.args[0] == "git"
    assert request.command == command


@pytest.mark.parametrize(
    "command",
    [
        "git log --oneline", "git status", "git diff", "git show HEAD", "git branch",
        "git branch --show-current", "git branch --list 'x*'", "git stash list", "git tag", "git tag -l",
        "git remote -v", "git worktree list", "git config user.name", "git config --get user.name",
        "git rev-parse HEAD", "git", "git --version", "echo git commit", "git nonsense", "git log | head",
        "git submodule foreach ls", "git difftool", "git bisect log", "git archive --remote=x HEAD",
        "git clone ./x y", "git submodule status", "git filter-branch",
    ],
)  # fmt: skip
def test_nothing_else_opens_a_repository(repository: Path, command: str) -> None:
    assert not why(repository, command)
    assert not list(protected_in_command(command, repository))


@pytest.mark.parametrize(
    "command",
    [
        "git config user.name x && git commit -qam y", "git commit -m \"$(cat <<'E'\nx\nE\n)\"",
        "git commit -m x; f() { ls; }", "git commit -qam x; python3 tools/lint.py",
        "git add -A && git commit -m x", "git add x; sh build.sh", "./x | git commit -F -", "$X; git add x",
        "git add $(./x)", "git branch $NAME", "git add *.py", "git commit -F - <<< x", "git commit -m x > y",
        "git commit -F - < x", "GIT_DIR=x git commit -m x", "if ./x; then git commit -m x; fi",
        "/usr/bin/git add x", "./git add x", "cd .; git commit -m x", "git commit -m x &>y",
        "git init && ./x", "git init new && ./x", "git log && git reset --hard",
        # What makes git run or obey something.
        "git -c core.fsmonitor=./x add y", "git -c alias.add='!./x' add y", "git -c filter.x.clean=./x add y",
        "git --exec-path=. commit -m x", "git --git-dir=x commit -m x",
        "git --work-tree=/ add x", "git --config-env=core.pager=X add x", "git --bare add x",
        "git rebase --exec ./x main", "git rebase -x ./x main",
        "git rebase --ex=./x main", "git rebase -ix ./x main", "git fetch --upload-pack=./x o",
        "git fetch --up ./x o", "git pull --upload-pack ./x", "git push --receive-pack=./x o",
        "git push --exec=./x o", "git init --template=./x", "git init --templ=./x",
        "git init --separate-git-dir=x", "git init --bare x", "git config core.fsmonitor ./x",
        "git config core.hooksPath x", "git config alias.st '!./x'", "git config include.path ../x",
        "git config filter.x.clean ./x", "git config --file x.conf user.name x",
        "git config --fil=x.conf user.name x", "git config -f .git/config user.name x", "git config -e",
        "git config set core.editor ./x", "git config remote.o.uploadpack ./x",
        "git config --unset-all alias.x", "git config --rename-section user core",
        "git config --global user.name x", "git submodule add x", "git bisect run ./x",
        "git worktree add trees/x", "git fetch --recurse-submodules", "git checkout --recurse x",
        "git config core.worktree /", "git config url.ext::x.insteadOf https", "git config user.signingkey x",
    ],
)  # fmt: skip
def test_beside_a_shell_or_what_git_would_run_it_does_not_write(repository: Path, command: str) -> None:
    assert why(repository, command).startswith("Not run: git ")


CONFIGURATIONS = [
    '[filter "x"]\n\tclean = ./x', '[FILTER "x"] Smudge=./x', '[filter "a]b"] process = ./x',
    '[merge "x"]\r\n\tdriver = ./x %A', '[diff "x"]\n  textconv = ./x', "[diff] external = ./x",
    '[diff "x"]\ncommand = ./x', "[include]\n\tpath = ../x", '[includeIf "gitdir:."]\n path = x',
    '[credential "https://x"]\n\thelper = !./x', "[gpg]\n\tprogram = ./x", '[trailer "x"]\n\tcmd = ./x',
    '[remote "o"]\n\tuploadpack = ./x', '[remote "o"]\n\tvcs = x', '[hook "x"]\n\tcommand = ./x',
    "[core]\n\tpager = x\\\n\n\talternateRefsCommand = ./x", "[core]\n\tgitproxy = ./x",
    '[submodule "x"]\n\tupdate = !./x',
]  # fmt: skip
PLACES = ("config.worktree", "modules/a/b/config", "modules/a/config.worktree")


@pytest.mark.parametrize(
    ("config", "name"),
    [*((each, "config") for each in CONFIGURATIONS), *((CONFIGURATIONS[0], each) for each in PLACES)],
)
def test_a_repository_that_names_programs_is_not_written(repository: Path, config: str, name: str) -> None:
    (repository / ".git" / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / ".git" / name).write_text(config)
    assert why(repository, "git commit -m x").startswith("Not run: git ")


def test_git_does_not_look_into_a_repository_of_the_work_tree_that_names_programs(repository: Path) -> None:
    (repository / "inner/.git/config").write_text('[filter "x"]\n\tclean = ./x')
    assert opened(repository, "git add -A")
    for index in (".git/index", ".git/sharedindex.x"):
        (repository / index).write_bytes(b"DIRC\0\0\xe0\0")
        assert "clean in inner/.git/config." in why(repository, "git add -A")
        assert "the repository in ." in why(repository, "git mv -k . new")
        (repository / index).unlink()


def test_files_that_go_through_the_persons_filters_are_not_written_without_them(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git LFS would get whole files, and the person's git would not know what they are."""
    (repository / "sub/.gitattributes").write_text("# filter=other\n*.bin filter=lfs diff=lfs -text\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(repository / "config"))
    assert opened(repository, "git add a.bin") == {".git"}
    (repository / "config").write_text('[filter "lfs"]\n\tprocess = git-lfs filter-process\n')
    assert "filter=lfs in sub/.gitattributes" in why(repository, "git add a.bin")
    (repository / "sub/.gitattributes").write_text("*.bin filter=lfsx\n")
    assert opened(repository, "git add a.bin") == {".git"}


def test_an_ordinary_configuration_names_none(repository: Path) -> None:
    (repository / ".git/config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\thooksPath = .husky/_\n\tpager = less\n"
        "\tfsmonitor = true\n\teditor = vi\n\tsshCommand = ssh -i x\n"
        '[remote "origin"]\n\turl = https://example.org/?path=x\n\tfetch = +refs/heads/*:refs/remotes/o/*\n'
        '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = a program = b\n'
    )
    assert opened(repository, "git commit -m x") == {".git"}


def test_the_repository_is_the_nearest_one_of_the_workspace(repository: Path) -> None:
    assert opened(repository, "git commit -m x", "inner") == {"inner/.git"}
    (repository / "other/deep").mkdir(parents=True)
    assert not opened(repository / "other", "git commit -m x", "deep")
    assert git_write("git -C .. commit -m x", repository / "other", repository / "other") is None


def test_what_a_rebase_would_go_on_with_and_links_out_are_refused(repository: Path) -> None:
    todo = repository / ".git/rebase-merge/git-rebase-todo"
    todo.parent.mkdir()
    (repository / ".git/hooks").symlink_to("../hooks")
    for text, is_run in (("pick 1 exec x\n", False), ("pick 1\n x ./evil\n", True)):
        todo.write_text(text)
        assert bool(opened(repository, "git add x")) is not is_run
    todo.unlink()
    for name in ("index", "logs/refs/heads/hooks", "objects/info"):
        (repository / ".git" / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / ".git" / name).symlink_to("/x")
        assert f"the link .git/{name}, which leads out" in why(repository, "git add x")
        (repository / ".git" / name).unlink()
    (repository / ".git/loop").symlink_to("loop")
    os.mkfifo(repository / ".git/config")
    assert ".git/config, which is no file" in why(repository, "git add x")


@pytest.mark.parametrize(
    "command", ["cp x .git/config", "tee .git/hooks/pre-commit", "rm -r .git", "touch inner/.git/config"]
)
def test_what_a_command_names_in_a_repository_is_asked_about_and_stays_read_only(
    repository: Path, command: str
) -> None:
    assert list(protected_in_command(command, repository))
    assert not opened(repository, command)


SUBMODULE = (
    "sub/.git",
    "gitdir: ../.git/modules/sub\n",
    ".git/modules/sub/config",
    "[core]\n\tworktree = ../../../sub",
)
LINKED = (
    "trees/x/.git", "gitdir: {top}/.git/worktrees/x\n", ".git/worktrees/x/gitdir", "{top}/trees/x/.git\n",
    ".git/worktrees/x/commondir", "../..\n",
)  # fmt: skip


def laid(top: Path, *files: str) -> Path:
    """Write files: each a path and its text."""
    for path, text in zip(files[::2], files[1::2], strict=True):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text.replace("{top}", str(top)))
    return top


@pytest.mark.parametrize(
    ("files", "line", "place", "git_dir"),
    [
        (SUBMODULE, "git -C sub commit -m x", ".git/modules/sub", ".git/modules/sub"),
        (LINKED, "cd trees/x && git add y", ".git", ".git/worktrees/x"),
    ],
    ids=["submodule", "linked"],
)
def test_a_submodule_and_a_linked_worktree_are_written_where_they_point(
    repository: Path, files: tuple[str, ...], line: str, place: str, git_dir: str
) -> None:
    assert place in opened(laid(repository, *files), line)
    request = command_request(line, workspace=repository)
    named = next(word.partition("=")[2] for word in request.args if word.startswith("--git-dir="))
    inside = repository / request.args[request.args.index("-C") + 1]
    assert (request.repository, (inside / named).resolve()) == (repository / place, repository / git_dir)


NO_NAME = "names no repository in a .git of the workspace"
NOT_BACK = "names .git/modules/sub, which does not name it"


@pytest.mark.parametrize(
    ("files", "more", "said"),
    [
        (SUBMODULE, ("sub/.git", "gitdir: ../inner/.git"), NO_NAME),
        (SUBMODULE, ("sub/.git", "gitdir: /x/.git/modules/sub"), NO_NAME),
        (SUBMODULE, ("sub/.git", "gitdir: ../store", "store/config", "[core]\n\tworktree = ../sub"), NO_NAME),
        (SUBMODULE, ("sub/.git", "../.git/modules/sub"), NO_NAME),
        (SUBMODULE, (".git/modules/sub/config", "[core]\n\tworktree = ../../../other"), NOT_BACK),
        (SUBMODULE, (".git/modules/sub/config", SUBMODULE[3] + "\nworktree = ../../../x"), NOT_BACK),
        (SUBMODULE, (".git/modules/sub/config.worktree", "[core]\n\tworktree = ../../../x"), NOT_BACK),
        (SUBMODULE, (".git/modules/sub/config", ""), NOT_BACK),
        (SUBMODULE, (".git/modules/sub/commondir", "../.."), ".git/modules/sub/commondir, which leads to"),
        (SUBMODULE, (".git/modules/sub/config", "[core]\n\tworktree = ../../../sub\n\tgitproxy = ./x"),
         "gitproxy in .git/modules/sub/config."),
        (SUBMODULE, ("sub/.git", "gitdir: ../inner/.git/modules/s", "inner/.git/modules/s/config",
                     "[core]\n\tworktree = ../../../../sub"), "names inner/.git/modules/s, which does not"),
        (LINKED, (".git/worktrees/x/gitdir", "{top}/trees/y/.git"), "names .git/worktrees/x, which does not"),
        (LINKED, (".git/worktrees/x/commondir", "../../../inner/.git"), "names .git/worktrees/x, which does"),
        (LINKED, (".git/worktrees/x/config.worktree", '[filter "x"]\n\tclean = ./x'),
         "clean in .git/worktrees/x/config.worktree."),
        (LINKED, (".git/worktrees/x/rebase-merge/git-rebase-todo", "exec ./x"),
         "exec in .git/worktrees/x/rebase-merge/git-rebase-todo."),
        (("./x", ""), (".git/commondir", "../inner/.git"), ".git/commondir, which leads to another"),
    ],
)  # fmt: skip
def test_a_git_file_that_nothing_points_back_at_or_that_runs_programs_is_refused(
    repository: Path, files: tuple[str, ...], more: tuple[str, ...], said: str
) -> None:
    folder = Path(files[0]).parent
    assert said in why(laid(repository, *files, *more), f"git -C {folder} commit -m x")


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (".git/modules", "sub/.git names its repository through a symbolic link"),
        ("sub", f"real/.git {NOT_BACK}"),
        ("sub/.git", "sub/.git is neither a folder nor a file"),
    ],
)
def test_a_link_on_the_way_to_a_repository_is_refused(repository: Path, link: str, said: str) -> None:
    laid(repository, *SUBMODULE)
    (repository / link).rename(repository / "real")
    (repository / link).symlink_to(repository / "real")
    assert said in why(repository, "git -C sub commit -m x")
