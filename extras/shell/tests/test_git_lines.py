"""Lines in which git writes beside other commands: what runs one by one, what is asked about, and killed."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from extras.shell.tests.lines import YES
from extras.shell.tests.lines import line as one_line
from skills_agent.shell.git_lines import first_of, runs_of
from tests.agents import Agent
from tests.forked import run_forked
from tests.kit import MakeAgent
from tests.machine import needs_bwrap

A, B = "git add -A", "git commit -m x"


@pytest.mark.parametrize(
    ("line", "runs", "first"),
    [
        (f"{A} && {B} && pytest -q | tail; ls", [A, B, "pytest -q | tail; ls"], f"{A} && {B}"),
        (f"make > x || ls; {A}; git log; w", ["make > x || ls", A, "git log", "w"], "make > x || ls"),
        (f"cd é && {A} && ls", [f"cd é && {A}", "cd é && ls"], f"cd é && {A}"),
        (f"# é\n{A}\n{B}\nls", [f"# é\n{A}", f"# é\n{B}", "# é\nls"], f"# é\n{A}\n{B}"),
        (f"{A} && cd x && export Y=1", [A, "cd x && export Y=1"], A),
        *[
            (line, [line], line) for line in
            (
                A, f"cd x && {A}", "git status && git log", f"ls; echo '{A}; {B}'", f"{A} | cat; ls",
                f"ls $({A}); ls", f"({A}); ls", f"{{ {A}; ls; }}", f"if ls; then {A}; fi; ls", f"! {A} && ls",
                f"{A} & ls", f"{A} > x; ls", f"for x in y; do {A}; done; ls", f"cat <<E; {A}\nx\nE\n",
                f"X=1; {A}; ls", f"ls; cd x; {A}", f"set -e; {A}", f"{B}; echo $?", f"exit 1; {A}",
                f"git add $X; {B}; ls", f"G=1 {A}; ls", f"f() {{ ls; }}; {A}", f"cd $X && {A} && ls",
            )
        ],
    ],
)  # fmt: skip
def test_a_plain_list_runs_in_parts_and_any_other_line_as_it_is(
    line: str, runs: list[str], first: str
) -> None:
    assert (runs_of(line), first_of(line)) == (runs, first)


LINE = f"{A} && {B} && echo two >> a.txt; git commit -qam y; ls none || git tag v1"
ALL = "y (HEAD -> main, tag: v1)\nx\n"
ASKED = [LINE, "echo two >> a.txt", "git commit -qam y", "git tag v1"]
NO = {"type": "reject", "message": "not that"}


@pytest.fixture
def repository(workspace: Path) -> Path:
    (workspace / "a.txt").write_text("one\n")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=workspace, check=True)
    with (workspace / ".git/config").open("a") as file:
        file.write("[user]\n\tname = a\n\temail = a@b\n")
    return workspace


def done(repository: Path) -> str:
    line = "git log --format=%s%d && git status --short -- a.txt"
    return subprocess.check_output(line, shell=True, cwd=repository, text=True)


def begun(make_agent: MakeAgent, line: str = LINE, **settings: Any) -> Agent:
    settings = {"sandbox": "off", "enable_run_command": "on", **settings}
    agent = make_agent([one_line(line), "done"], **settings)
    if not agent.state.values:
        agent.say("go")
    return agent


def asked(agent: Agent, most: int = 9) -> list[str]:
    commands: list[str] = []
    while agent.state.interrupts and len(commands) < most:
        commands += [each["args"].get("command", "changes") for each in agent.asked]
        agent.answer(YES)
    return commands


def test_each_section_is_a_question_and_works_on_what_the_one_before_left(
    make_agent: MakeAgent, repository: Path
) -> None:
    agent = begun(make_agent)
    assert f"```sh\n{A} && {B}\n```\n\nAsked about when its turn comes" in agent.question
    assert asked(agent) == ASKED
    assert done(repository) == ALL
    shown = [
        text.split(" (")[0]
        for text in agent.results("run_command")[0].split("\n")
        if text.startswith(("$ ", "exit code"))
    ]
    assert shown[::2] == [f"$ {text}" for text in (A, B, *ASKED[1:3], "ls none", ASKED[3])]
    assert shown[1::2] == ["exit code 0"] * 4 + ["exit code 2", "exit code 0"]


def test_a_message_of_a_here_document_is_asked_about_as_a_word(
    make_agent: MakeAgent, repository: Path
) -> None:
    agent = begun(make_agent, "git add -A && git commit -q -F - <<'E'\nfrom here\nE\n")
    assert "git commit -q -m 'from here\n'" in agent.question
    agent.answer(YES)
    assert done(repository) == "from here (HEAD -> main)\n"


def test_what_is_not_approved_does_not_run_and_what_ran_is_told(
    make_agent: MakeAgent, repository: Path
) -> None:
    agent = begun(make_agent)
    agent.answer(YES)
    agent.answer({**YES, "grant": {"scope": "thread"}})
    assert agent.state.interrupts
    agent.answer(NO)
    assert (repository / "a.txt").read_text() == "one\n"
    assert "(root-commit)" in agent.results("run_command")[0]
    assert 'rejected it, and said: "not that"' in agent.results("run_command")[0]


@pytest.mark.parametrize(
    "rule", [{"approval": "fail"}, {"approval": "deny"}, {"exclude_tools": ["run_command(ls)"]}]
)
def test_where_a_later_section_may_not_run_nothing_does(
    make_agent: MakeAgent, repository: Path, rule: dict[str, Any]
) -> None:
    agent = begun(make_agent, f"echo two >> a.txt; {A}; ls", require_approval_for=[], **rule)
    assert "Nothing of the line was run" in agent.results("run_command")[0]
    assert (repository / "a.txt").read_text() == "one\n"


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 3, 9])
def test_killed_nothing_that_ended_runs_again(
    make_agent: MakeAgent, repository: Path, tmp_path: Path, at: int
) -> None:
    cut = "[ ! -e again ] && kill -9 $(cat pid)"
    line = LINE.replace("ls none", cut) if at == 9 else LINE

    def until_killed() -> None:
        (repository / "pid").write_text(str(os.getpid()))
        with SqliteSaver.from_conn_string(str(tmp_path / "threads")) as saver:
            asked(begun(make_agent, line, checkpointer=saver), at)
            os.kill(os.getpid(), signal.SIGKILL)

    assert run_forked(until_killed) == -signal.SIGKILL
    (repository / "again").touch()
    with SqliteSaver.from_conn_string(str(tmp_path / "threads")) as saver:
        agent = begun(make_agent, line, checkpointer=saver)
        if at == 9:
            agent.run(None)
            assert "Outcome unknown" in agent.question
        assert asked(agent) == ([line, cut, ASKED[3]] if at == 9 else ASKED[at:])
        assert agent.results("run_command")[0].count("$ ") == 6
    assert done(repository) == ALL


@pytest.mark.slow
@needs_bwrap
@pytest.mark.parametrize("decision", [YES, NO])
def test_changes_that_are_held_are_decided_about_before_the_next_section(
    make_agent: MakeAgent, repository: Path, decision: dict[str, str]
) -> None:
    (repository / "w.sh").write_text("echo X=1 > .env; echo > b.txt")
    agent = begun(make_agent, "git add w.sh; sh w.sh; git add -A && git commit -qm x", sandbox="require")
    asked(agent, most=2)
    assert "+X=1" in agent.question
    agent.answer(decision)
    assert asked(agent) == ["git add -A && git commit -qm x"]
    files = subprocess.check_output(["git", "ls-tree", "--name-only", "HEAD"], cwd=repository, text=True)
    assert ("b.txt" in files, ".env" in files) == (True, decision == YES)
