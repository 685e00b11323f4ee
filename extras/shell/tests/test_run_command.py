"""run_command: a shell, where it starts, what ends it, and what it says when it fails."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from skills_agent.graph.tools.equipment import WORK_FOLDER
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import needs_bwrap

FREE: dict[str, Any] = {"require_approval_for": [], "enable_run_command": "on"}


@pytest.fixture(params=[pytest.param("off", marks=pytest.mark.slow), "require"], ids=["controlled", "bwrap"])
def free(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return settings under which nobody is asked, without a sandbox and in one."""
    return {**FREE, "sandbox": request.param}


def run(make_agent: MakeAgent, settings: dict[str, Any], **arguments: Any) -> ToolMessage:
    agent = make_agent([calls(call("run_command", **arguments)), "done"], **settings)
    agent.say("go")
    (answer,) = agent.tool_messages("run_command")
    return answer


def stdout(answer: ToolMessage) -> str:
    head, _, text = answer.text.partition("\nstdout:\n")
    assert head.startswith("exit code 0 ("), answer.text
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
    assert "evil" not in stdout(run(make_agent, free, command="ls sub 2>/dev/null; echo good"))


# --- where it starts ---


def test_it_starts_in_a_folder_of_the_workspace_and_may_write_in_all_of_it(
    make_agent: MakeAgent, workspace: Path, free: dict[str, Any]
) -> None:
    (workspace / "a/b").mkdir(parents=True)
    answer = run(make_agent, free, command="pwd; touch ../beside", cwd="a/b")
    assert stdout(answer) == f"{workspace}/a/b"
    assert (workspace / "a/beside").exists()
    absolute = run(make_agent, free, command="pwd", cwd=str(workspace / "a"))
    assert stdout(absolute) == f"{workspace}/a"


def test_it_starts_in_the_threads_own_folder_where_that_is_set(
    make_agent: MakeAgent, workspace: Path, free: dict[str, Any]
) -> None:
    settings = {**free, "workdir": "thread"}
    script = [
        calls(call("run_command", command="mkdir -p x; pwd")),
        calls(call("run_command", command="pwd", cwd="x")),
        "ok",
    ]
    agent = make_agent(script, **settings)
    agent.say("go")
    first, second = map(stdout, agent.tool_messages("run_command"))
    assert Path(first).parent == workspace / WORK_FOLDER
    assert second == f"{first}/x"


@pytest.mark.parametrize("cwd", ["none", "file", "..", "/", "out", ".agent", "inner/../..", "\0"])
def test_it_starts_nowhere_else(
    make_agent: MakeAgent, workspace: Path, tmp_path: Path, free: dict[str, Any], cwd: str
) -> None:
    (workspace / "file").touch()
    (workspace / "out").symlink_to(tmp_path)
    (workspace / ".agent").mkdir()
    (workspace / "inner").mkdir()
    answer = run(make_agent, free, command="pwd", cwd=cwd)
    assert answer.status == "error"
    assert answer.text.startswith("Cannot start in ")


def test_nobody_gets_more_time_than_the_operator_gives(make_agent: MakeAgent, workspace: Path) -> None:
    answer = run(make_agent, {**FREE, "sandbox": "off"}, command="touch made", timeout=61)
    assert answer.text == "Nothing was run: 61 seconds were asked for, and timeout is at most 60 here."
    assert not (workspace / "made").exists()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("  \n ", "The command is empty."),
        ("echo a\0b", "The command has a NUL in it"),
        ("echo " + "é" * 50_000, "The command is too long: 100,005 bytes, and a shell takes 100,000."),
    ],
)
def test_a_line_that_no_shell_can_run_is_refused_before_a_question(
    make_agent: MakeAgent, command: str, says: str
) -> None:
    agent = make_agent(
        [calls(call("run_command", command=command)), "done"], enable_run_command="on", sandbox="off"
    )
    agent.say("go")
    assert not agent.state.interrupts
    (answer,) = agent.tool_messages("run_command")
    assert answer.text.startswith(says)


def test_a_signal_is_named_as_such(make_agent: MakeAgent, free: dict[str, Any]) -> None:
    for command in ("kill -SEGV $$", "true; bash -c 'kill -SEGV $$'; exit $?"):
        assert run(make_agent, free, command=command).text.startswith("ended by signal 11 (SIGSEGV) (")


@pytest.mark.parametrize(
    ("command", "is_failed"), [("exit 0", False), ("exit 1", True), ("kill -KILL $$", True)]
)
def test_a_command_that_failed_or_was_killed_is_of_status_error(
    make_agent: MakeAgent, free: dict[str, Any], command: str, is_failed: bool
) -> None:
    answer = run(make_agent, free, command=command)
    assert answer.status == ("error" if is_failed else "success")
    assert answer.artifact["exit_code"] == 0 or is_failed


# --- who is asked ---


def asked(agent: Agent) -> str:
    agent.say("go")
    (interrupt,) = agent.state.interrupts
    (question,) = interrupt.value["action_requests"]
    return str(question["description"])


PROTECTED = [
    {"command": "cd sub && echo x >.git/config"},
    {"command": "echo x > config", "cwd": ".git"},
    {"command": "echo x > ../.git/config", "cwd": "sub"},
]


@pytest.mark.parametrize("arguments", PROTECTED, ids=str)
def test_a_protected_path_in_a_line_is_asked_about_every_time(
    make_agent: MakeAgent, workspace: Path, arguments: dict[str, Any]
) -> None:
    for folder in ("sub", ".git"):
        (workspace / folder).mkdir()
    question = asked(make_agent([calls(call("run_command", **arguments)), "done"], **FREE))
    assert "You are asked every time" in question


def test_what_was_approved_becomes_writable_and_nothing_beside_it(
    make_agent: MakeAgent, workspace: Path
) -> None:
    for name in (".envrc", ".gitmodules", "sub/.envrc"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("as it was")
    command = (
        "cd sub; echo new > ../.envrc; for x in .git; do echo new > ../${x}modules; done; echo new > .envrc"
    )
    agent = make_agent(
        [calls(call("run_command", command=command, cwd="sub")), "done"], sandbox="require", **FREE
    )
    assert "You are asked every time" in asked(agent)
    agent.answer({"type": "approve"})
    assert (workspace / ".envrc").read_text() == "new\n"
    assert (workspace / ".gitmodules").read_text() == "as it was"
    assert (workspace / "sub/.envrc").read_text() == "new\n"


# --- whether it is offered ---


ASKED = [calls(call("run_command", command="echo ran")), "done"]


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
    agent = make_agent(ASKED, require_approval_for=[], **settings)
    agent.say("go")
    assert says in agent.tool_messages("run_command")[0].text


def test_where_it_is_not_offered_a_skill_that_wants_it_says_so(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "shown", "Shows.", "Run:\n\n  ```bash\n  ls\n  ```\n")
    write_skill(skills_dir, "listed", "Lists.\nallowed-tools: Read Bash(git:*)", "Do it.")
    write_skill(skills_dir, "neither", "Neither.\nallowed-tools: Read", "```python\nrun bash\n```")
    agent = make_agent([ASKED[0], "done"], require_approval_for=[], sandbox="off")
    agent.say("go", skills=["shown", "listed", "neither"])
    reason = "no shell here: the sandbox is turned off (setting sandbox)"
    assert f"There is no tool 'run_command': {reason}." in agent.tool_messages("run_command")[0].text
    receipts = [each.text for each in agent.tool_messages("load_skill")]
    wanting = [f"wants shell commands, and there is {reason}." in each for each in receipts]
    assert wanting == [True, True, False]
