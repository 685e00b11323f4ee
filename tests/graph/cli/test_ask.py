"""skills-agent ask and resume, without a terminal."""

import select
import shlex
import signal
from pathlib import Path

import pytest

from skills_agent.graph.cli.printing import IN_PROGRESS
from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine, Finished

ANSWER = "Together it rained 544 mm."
SLOW = """\
import pathlib
import time

with open("started", "a") as file:
    file.write("x")
while not pathlib.Path("go").exists():
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Ask the offline model about a file and with a skill that it has never seen."""
    cli = CommandLine(tmp_path_factory.mktemp("offline"))
    question = "How many millimetres of rain fell in rainfall.csv?"
    return cli.run("ask", question, "--skills-dir", str(cli.write_skill()), "--yes", "run")


def test_a_question_about_an_unseen_file_is_answered_with_the_true_figures(offline: Finished) -> None:
    assert offline.code == 0
    assert offline.errors == ""
    answer = offline.out.partition("\n\n")[2]
    assert "all stations: 544 mm" in answer
    assert "Bergen: 353.5 mm" in answer


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> tuple[CommandLine, Finished]:
    """Stop three threads at the same question."""
    cli = CommandLine(tmp_path_factory.mktemp("waiting"))
    folder = str(cli.write_skill())
    model = cli.script(LOAD, RUN, ANSWER)
    for thread in ("reject", "ask-again"):
        cli.run("ask", "Rain?", "--skills-dir", folder, "--model", model, "--thread", thread)
    return cli, cli.run("ask", "Rain?", "--skills-dir", folder, "--model", model, "--thread", "approve")


def test_a_call_that_is_not_reading_stops_the_run_with_exit_code_3(
    waiting: tuple[CommandLine, Finished],
) -> None:
    _, done = waiting
    assert done.code == 3
    assert "scripts/add_up.py" in done.out
    assert '["rainfall.csv"]' in done.out
    assert ANSWER not in done.out


@pytest.mark.slow
def test_the_printed_command_resumes_it_in_a_new_process(waiting: tuple[CommandLine, Finished]) -> None:
    cli, done = waiting
    commands = [line.partition(": ")[2] for line in done.out.splitlines() if "skills-agent resume" in line]
    assert commands == ["skills-agent resume approve --approve"]
    # Neither the folder of skills nor the model is named again: they are kept with the thread.
    resumed = cli.run_process(*shlex.split(commands[0])[1:])
    assert resumed.code == 0
    assert "approve   answered: approve: run_script(skill=rain-gauge, " in resumed.out
    assert "exit code 0" in resumed.out
    assert resumed.out.endswith(f"{ANSWER}\n")
    again = cli.run(*shlex.split(commands[0])[1:])
    assert (again.code, again.out) == (1, "")
    assert again.err == "error: Thread approve has nothing to resume: its last turn is answered.\n"


def test_a_rejected_call_never_runs_and_the_model_reads_why(waiting: tuple[CommandLine, Finished]) -> None:
    cli, _ = waiting
    done = cli.run("resume", "reject", "--reject", "--message", "wrong file", "--json")
    assert done.code == 0
    assert done.value["status"] == "done"
    assert [each["decision"] for each in done.value["calls"]] == ["deny"]
    assert "wrong file" in done.value["calls"][0]["reason"]
    assert done.value["usage"]["thread"]["script_runs"] == 0


def test_resume_without_an_answer_shows_the_question_again(waiting: tuple[CommandLine, Finished]) -> None:
    cli, _ = waiting
    done = cli.run("resume", "ask-again")
    assert done.code == 3
    assert "Approval needed" in done.out
    assert "skills-agent resume ask-again --approve" in done.out


def test_json_is_one_object_for_an_answer(cli: CommandLine) -> None:
    about = ("--skills-dir", str(cli.skills), "--model", cli.script(LOAD, RUN, ANSWER))
    done = cli.run("ask", "Rain?", "--json", *about, "--yes", "write", "--yes", "run")
    assert done.code == 0
    told = done.value
    assert sorted(told) == ["answer", "calls", "loaded", "status", "thread", "usage"]
    assert (told["status"], told["answer"], told["loaded"]) == ("done", ANSWER, ["rain-gauge"])
    assert told["usage"]["this_turn"]["script_runs"] == 1
    (judged,) = told["calls"]
    assert {"args", "by", "decision", "reason", "tool"} <= set(judged)
    assert (judged["tool"], judged["decision"], judged["by"]) == ("run_script", "allow", "policy")


def test_json_is_one_object_for_an_open_question(cli: CommandLine) -> None:
    model = cli.script(calls(call("write_file", path="note.txt", content="hi")), "Written.")
    done = cli.run("ask", "Write a note", "--json", "--model", model)
    assert done.code == 3
    told = done.value
    assert told["status"] == "waiting"
    assert told["interrupt"]["action_requests"][0]["args"] == {"path": "note.txt", "content": "hi"}
    assert told["resume"] == f"skills-agent resume {told['thread']} --approve"
    assert not (cli.workspace / "note.txt").exists()
    # From another folder, the command names the workspace.
    seen = cli.run("resume", told["thread"], "--approve", "--json", "--workspace", str(cli.workspace))
    assert seen.value["answer"] == "Written."
    assert (cli.workspace / "note.txt").read_text() == "hi"


def test_a_question_is_read_from_stdin(cli: CommandLine) -> None:
    done = cli.run("ask", "-", "--json", "--model", cli.script("Yes."), stdin="Did it rain?\n")
    shown = cli.run("threads", "show", done.value["thread"])
    assert "you: Did it rain?" in shown.out


def test_a_named_skill_is_loaded_before_the_model_is_asked(cli: CommandLine) -> None:
    folder, model = str(cli.skills), cli.script("Loaded already.")
    done = cli.run("ask", "Rain?", "--skill", "rain-gauge", "--skills-dir", folder, "--model", model)
    assert done.code == 0
    assert "load      loaded rain-gauge from configured (" in done.out
    assert "asked for by the caller" in done.out


def test_an_unknown_skill_is_wrong_usage_and_names_the_known_ones(cli: CommandLine) -> None:
    done = cli.run("ask", "Rain?", "--skill", "rain-guage", "--skills-dir", str(cli.skills))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: There is no skill named 'rain-guage'. Known skills:")
    assert "rain-gauge" in done.err


def test_new_words_on_a_waiting_thread_drop_its_question(cli: CommandLine) -> None:
    model = cli.script(calls(call("write_file", path="note.txt", content="hi")), "As you like.")
    thread = cli.run("ask", "Write a note", "--json", "--model", model).value["thread"]
    done = cli.run("ask", "Never mind", "--thread", thread)
    assert done.code == 0
    assert "the open question of this thread is dropped" in done.out
    assert done.out.endswith("As you like.\n")
    assert not (cli.workspace / "note.txt").exists()


def test_a_model_that_fails_is_one_line_and_the_thread_can_go_on(cli: CommandLine) -> None:
    model = cli.script(calls(call("list_dir")))
    done = cli.run("ask", "What is here?", "--json", "--model", model)
    assert done.code == 1
    assert done.err.startswith("error: The scripted model has 1 replies")
    assert done.err.count("\n") == 1
    told = done.value
    assert (told["status"], "error" in told) == ("error", True)
    assert told["resume"] == f"skills-agent resume {told['thread']}"
    assert f"{told['error']} To go on from there: {told['resume']}" in done.err
    cli.script(calls(call("list_dir")), "A table of rainfall.")
    resumed = cli.run("resume", told["thread"])
    assert resumed.code == 0
    assert resumed.out.endswith("A table of rainfall.\n")


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_what_policy_refuses_is_told_once(cli: CommandLine, how: list[str]) -> None:
    model = cli.script(calls(call("write_file", path="note.txt", content="hi")), "I may not.")
    done = cli.run("ask", "Note", "--approval", "deny", "--model", model, *how)
    assert (done.code, done.errors) == (0, "")
    assert done.out.count("needs an approval") == 1, done.out


def test_a_warning_that_no_line_of_progress_says_is_printed(cli: CommandLine) -> None:
    cli.write(".agent/runs", "in the way")
    done = cli.run("ask", "Hello", "--model", cli.script("Hello."))
    assert (done.code, done.errors) == (0, "audit cannot be written: runs go on without a record\n")


@pytest.mark.parametrize("message", sorted(IN_PROGRESS))
def test_a_warning_that_is_left_out_is_one_of_a_step(message: str) -> None:
    steps = Path(__file__).parents[3] / "nodes"
    assert any(f'"{message}"' in step.read_text() for step in steps.glob("*.py"))


def test_what_was_said_is_kept_outside_of_the_workspace_for_this_user_alone(cli: CommandLine) -> None:
    cli.run("ask", "Rain?", "--model", cli.script("Yes."))
    kept = [cli.state.parent, cli.state, *cli.state.rglob("*")]
    assert {"threads.sqlite", "workspace"} < {path.name for path in kept}
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    assert (cli.state / "workspace").read_text() == f"{cli.workspace}\n"
    assert [path.name for path in (cli.workspace / ".agent").iterdir()] == ["runs"]


def test_text_of_a_model_cannot_steer_the_terminal(cli: CommandLine) -> None:
    done = cli.run("ask", "Rain?", "--model", cli.script("\x1b]0;owned\x07\x1b[2Jclear\u202e"))
    assert done.out.endswith("\n\n<U+001B>]0;owned<U+0007><U+001B>[2Jclear<U+202E>\n")


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_done(cli: CommandLine) -> None:
    """The first one waits for the call that runs; nothing of it is lost, and nothing runs twice."""
    cli.write_skill()
    (cli.skills / "rain-gauge" / "scripts" / "add_up.py").write_text(SLOW)
    chosen = ["--skills-dir", str(cli.skills), "--model", cli.script(LOAD, RUN, ANSWER), "--yes", "run"]
    process = cli.start("ask", "Rain?", "--thread", "rain", *chosen)
    assert process.stdout
    assert process.stderr
    assert any(line.startswith("gate") for line in process.stdout)
    while process.poll() is None and not (cli.workspace / "started").exists():
        select.select([], [], [], 0.01)
    process.send_signal(signal.SIGINT)
    assert any("Ctrl-C again to leave now" in line for line in process.stderr)
    cli.write("go", "")
    _, told = process.communicate()
    assert process.returncode == 130
    assert "interrupted; to go on: skills-agent resume rain" in told
    assert cli.run("resume", "rain").out.endswith(f"{ANSWER}\n")
    assert (cli.workspace / "started").read_text() == "x"


def test_a_request_that_is_sent_again_is_the_same_turn(cli: CommandLine) -> None:
    again = ("--thread", "t", "--model", cli.script("one", "two"))
    first = cli.run("ask", "q1", "--request-id", "r1", *again)
    assert first.out.endswith("\n\none\n")
    for _ in range(2):
        repeated = cli.run("ask", "q1", "--request-id", "r1", *again)
        assert (repeated.code, repeated.out.endswith("\n\none\n")) == (0, True)
    cli.run("ask", "q2", "--request-id", "r2", *again)
    told = cli.run("ask", "q1", "--request-id", "r1", *again, "--json").value
    assert (told["status"], told["answer"]) == ("done", "one")
    other = cli.run("ask", "q3", "--request-id", "r1", *again)
    assert (other.code, "another message with the id 'r1'" in other.err) == (1, True)
    shown = cli.run("threads", "show", "t", "--json").value
    assert [each["text"] for each in shown["messages"]] == ["q1", "one", "q2", "two"]


@pytest.mark.slow
def test_a_request_that_waits_shows_its_question_again(cli: CommandLine) -> None:
    write = calls(call("write_file", path="a", content="b"))
    ask = ("ask", "q", "--thread", "t", "--request-id", "r", "--model", cli.script(write, "done"))
    asked, again = cli.run(*ask), cli.run(*ask)
    assert (asked.code, again.code) == (3, 3)
    assert again.out.rpartition("Approval needed")[2] == asked.out.rpartition("Approval needed")[2]
    assert "dropped" not in again.out
    cli.run("resume", "t", "--approve")
    assert cli.run(*ask).out.endswith("\n\ndone\n")


def test_a_request_id_goes_with_a_thread(cli: CommandLine) -> None:
    refused = cli.run("ask", "q", "--request-id", "r")
    assert (refused.code, "--thread" in refused.err) == (2, True)


@pytest.mark.slow
def test_a_request_that_was_killed_goes_on(cli: CommandLine) -> None:
    (cli.skills / "rain-gauge" / "scripts" / "add_up.py").write_text(SLOW)
    model = cli.script(LOAD, RUN, ANSWER)
    ask = ["ask", "How much?", "--thread", "t", "--request-id", "r", "--yes", "run", "--model", model]
    ask += ["--skills-dir", str(cli.skills)]
    with cli.start(*ask) as process:
        while not (cli.workspace / "started").exists():
            select.select([], [], [], 0.05)
        process.kill()
    (cli.workspace / "go").write_text("")
    asked = cli.run(*ask)
    assert (asked.code, "was started at" in asked.out) == (3, True)  # it goes on, and asks about the script
    done = cli.run("resume", "t", "--reject")
    assert done.out.endswith(f"\n\n{ANSWER}\n")
    assert (cli.workspace / "started").read_text() == "x"
    assert cli.run(*ask).out.endswith(f"\n\n{ANSWER}\n")
