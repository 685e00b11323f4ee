"""run_command: a shell, where it starts, what ends it, what it is asked about, and where there is none."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from extras.shell.tests.lines import FREE, YES, line
from skills_agent.graph.tools.equipment import WORK_FOLDER
from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import needs_bwrap


def run(make_agent: MakeAgent, settings: dict[str, Any], *lines: dict[str, Any]) -> list[ToolMessage]:
    agent = make_agent([calls(*(call("run_command", **each) for each in lines)), "done"], **settings)
    agent.say("go")
    assert not agent.state.interrupts
    return agent.tool_messages("run_command")


def stdout(answer: str) -> str:
    head, _, text = answer.partition("\nstdout:\n")
    assert head.startswith("exit code 0 ("), answer
    return text


def test_files_of_settings_of_a_shell_are_not_read(
    make_agent: MakeAgent, workspace: Path, free: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = workspace / "evil.sh"
    evil.write_text("echo evil")
    for name in ("BASH_ENV", "ENV"):
        monkeypatch.setenv(name, str(evil))
    monkeypatch.setenv("PROMPT_COMMAND", "echo evil")
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { echo evil; }")
    (answer,) = run(make_agent, free, {"command": "ls sub 2>/dev/null; echo good"})
    assert "evil" not in stdout(answer.text)


def test_it_starts_in_a_folder_of_the_workspace_and_may_write_in_all_of_it(
    make_agent: MakeAgent, workspace: Path, free: dict[str, Any]
) -> None:
    (workspace / "a/b").mkdir(parents=True)
    lines = [{"command": "pwd; touch ../beside", "cwd": "a/b"}, {"command": "pwd", "cwd": f"{workspace}/a"}]
    assert [stdout(each.text) for each in run(make_agent, free, *lines)] == [
        f"{workspace}/a/b", f"{workspace}/a",
    ]  # fmt: skip
    assert (workspace / "a/beside").exists()


def test_it_starts_in_the_threads_own_folder_where_that_is_set(
    make_agent: MakeAgent, workspace: Path, free: dict[str, Any]
) -> None:
    agent = make_agent([line("mkdir -p x; pwd"), line("pwd", cwd="x"), "ok"], **free, workdir="thread")
    agent.say("go")
    first, second = map(stdout, agent.results("run_command"))
    assert Path(first).parent == workspace / WORK_FOLDER
    assert second == f"{first}/x"


def test_it_starts_nowhere_else(
    make_agent: MakeAgent, workspace: Path, tmp_path: Path, free: dict[str, Any]
) -> None:
    (workspace / "file").touch()
    (workspace / "out").symlink_to(tmp_path)
    for name in (".agent", "inner"):
        (workspace / name).mkdir()
    places = ["none", "file", "..", "/", "out", ".agent", "inner/../..", "\0"]
    answers = run(make_agent, free, *({"command": "pwd", "cwd": each} for each in places))
    assert [(each.status, each.text.partition(" in ")[0]) for each in answers] == [
        ("error", "Cannot start")
    ] * len(places)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"command": "  \n "}, "The command is empty."),
        ({"command": "echo a\0b"}, "The command has a NUL in it"),
        ({"command": "echo " + "é" * 50_000}, "The command is too long: 100,005 bytes"),
        ({"command": "touch made", "timeout": 61}, "Nothing was run: 61 seconds were asked for"),
    ],
    ids=["empty", "nul", "long", "timeout"],
)
def test_what_cannot_run_is_refused_before_a_question(
    make_agent: MakeAgent, workspace: Path, args: dict[str, Any], says: str
) -> None:
    asks = {} if "timeout" in args else {"require_approval_for": ["run"]}
    (answer,) = run(make_agent, {**FREE, "sandbox": "off", **asks}, args)
    assert answer.text.startswith(says)
    assert not (workspace / "made").exists()


def test_a_failure_is_of_status_error_and_a_signal_is_named_as_such(
    make_agent: MakeAgent, free: dict[str, Any]
) -> None:
    wanted = {
        "exit 0": ("success", "exit code 0 ("), "exit 1": ("error", "exit code 1 ("),
        "kill -SEGV $$": ("error", "ended by signal 11 (SIGSEGV) ("),
        "true; bash -c 'kill -SEGV $$'; exit $?": ("error", "ended by signal 11 (SIGSEGV) ("),
    }  # fmt: skip
    answers = run(make_agent, free, *({"command": command} for command in wanted))
    for answer, (status, head) in zip(answers, wanted.values(), strict=True):
        assert (answer.status, answer.text.startswith(head)) == (status, True), answer.text


def test_what_was_approved_becomes_writable_and_nothing_beside_it(
    make_agent: MakeAgent, workspace: Path
) -> None:
    for name in (".envrc", ".gitmodules", "sub/.envrc", ".git/config"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("as it was")
    command = (
        "cd sub; echo new > ../.envrc; for x in .git; do echo new > ../${x}modules; done; echo new > .envrc"
    )
    replies = [line("echo x > config", cwd=".git"), line(command, cwd="sub"), "done"]
    agent = make_agent(replies, sandbox="require", **FREE)
    agent.say("go")
    for decision in ({"type": "reject"}, YES):
        assert "You are asked every time" in agent.question
        agent.answer(decision)
    assert (workspace / ".envrc").read_text() == "new\n"
    assert (workspace / ".gitmodules").read_text() == "as it was"
    assert (workspace / "sub/.envrc").read_text() == "new\n"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        pytest.param({}, "exit code 0 (", marks=needs_bwrap),
        ({"sandbox": "require"}, "exit code 0 ("),
        ({"sandbox": "off"}, "no shell here: the sandbox is turned off (setting sandbox)."),
        ({"sandbox": "off", "enable_run_command": "on"}, "exit code 0 ("),
        ({"enable_run_command": "off"}, "no shell here: the operator turned it off (setting enable_run_"),
    ],
    ids=str,
)
def test_it_is_offered_where_a_sandbox_works_or_the_operator_says_so(
    make_agent: MakeAgent, settings: dict[str, Any], says: str
) -> None:
    agent = make_agent([line("echo ran"), "done"], require_approval_for=[], **settings)
    agent.say("go")
    assert says in agent.results("run_command")[0]


def test_where_it_is_not_offered_a_skill_that_wants_it_says_so(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "shown", "Shows.", "Run:\n\n  ```bash\n  ls\n  ```\n")
    write_skill(skills_dir, "listed", "Lists.\nallowed-tools: Read Bash(git:*)", "Do it.")
    write_skill(skills_dir, "neither", "Neither.\nallowed-tools: Read", "```python\nrun bash\n```")
    agent = make_agent(["done"], sandbox="off")
    agent.say("go", skills=["shown", "listed", "neither"])
    said = "wants shell commands, and there is no shell here: the sandbox is turned off (setting sandbox)."
    assert [said in each for each in agent.results("load_skill")] == [True, True, False]
