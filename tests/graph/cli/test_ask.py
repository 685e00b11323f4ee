"""skills-agent ask and resume, without a terminal."""

import shlex
from pathlib import Path

import pytest

from skills_agent.graph.cli.printing import IN_PROGRESS
from tests.agents import call, calls
from tests.graph.cli.command_line import LOAD, RUN, CommandLine

ANSWER = "Together it rained 544 mm."
RAIN = (LOAD, RUN, ANSWER)
WRITE = calls(call("write_file", path="note.txt", content="hi"))


def test_a_question_about_an_unseen_file_is_answered_with_the_true_figures(cli: CommandLine) -> None:
    question = "How many millimetres of rain fell in rainfall.csv?"
    done = cli.run("ask", question, "--skills-dir", str(cli.skills), "--yes", "run")
    assert (done.code, done.errors) == (0, "")
    answer = done.out.partition("\n\n")[2]
    assert "all stations: 544 mm" in answer
    assert "Bergen: 353.5 mm" in answer


def test_a_skill_that_an_option_or_a_slash_names_is_loaded_first_and_an_unknown_one_is_no_question(
    cli: CommandLine,
) -> None:
    asked = cli.run("ask", "Rain?", "--json", "--skill", "rain-gauge", *cli.plays("Yes."))
    assert (asked.code, asked.value["loaded"]) == (0, ["rain-gauge"])
    assert cli.run("ask", "Rain?", "--skill", "rain-gage", *cli.plays("Yes.")).code == 2
    for text, near in (("/nope x", ""), ("/rain-gage x", "/rain-gauge?")):
        done = cli.run("ask", text, *cli.plays("never asked"))
        assert (done.code, done.out, near in done.err) == (2, "", True)
    assert cli.run("ask", "/etc/hosts is a path", *cli.plays("Yes.")).code == 0


@pytest.mark.slow
def test_a_call_that_is_not_reading_stops_with_3_and_the_command_that_resumes_it(cli: CommandLine) -> None:
    asked = cli.run("ask", "Rain?", "--thread", "t", *cli.plays(*RAIN))
    assert (asked.code, ANSWER in asked.out) == (3, False)
    assert "scripts/add_up.py rainfall.csv" in asked.out
    again = cli.run("resume", "t")  # without an answer the question is shown again
    assert (again.code, again.out.rpartition("Approval")[2]) == (3, asked.out.rpartition("Approval")[2])
    (command,) = [line.partition(": ")[2] for line in asked.out.splitlines() if "agent resume" in line]
    assert command == "skills-agent resume t --approve"
    # Neither the folder of skills nor the model is named again: they are kept with the thread.
    resumed = cli.run_process(*shlex.split(command)[1:])
    assert (resumed.code, resumed.out.endswith(f"{ANSWER}\n")) == (0, True)
    again = cli.run(*shlex.split(command)[1:])
    assert (again.code, again.out, again.err.count("\n")) == (1, "", 1)


def test_a_rejected_call_never_runs_and_the_model_reads_why(cli: CommandLine) -> None:
    assert cli.run("ask", "Rain?", "--thread", "t", *cli.plays(*RAIN)).code == 3
    told = cli.run("resume", "t", "--reject", "--message", "wrong file", "--json").value
    (call,) = told["calls"]
    assert (told["status"], call["decision"], "wrong file" in call["reason"]) == ("done", "deny", True)
    assert told["usage"]["thread"]["script_runs"] == 0


def test_resume_without_a_thread_takes_the_only_one_that_waits(cli: CommandLine) -> None:
    for name in ("one", "two"):
        script = cli.script(WRITE, "x", name=f"{name}.json")
        assert cli.run("ask", "Write", "--thread", name, "--model", script).code == 3
    several = cli.run("resume", "--approve")
    assert (several.code, several.out) == (2, "")
    assert "two (waiting), one (waiting)" in several.err
    assert cli.run("threads", "delete", "one", "--yes").code == 0
    assert cli.run("resume", "--approve").code == 0
    assert (cli.workspace / "note.txt").read_text() == "hi"


def test_a_question_from_stdin_goes_on_with_the_newest_thread(cli: CommandLine) -> None:
    for name in ("old", "new"):
        cli.run("ask", "First?", "--thread", name, "--model", cli.script("One.", "Two.", name=f"{name}.json"))
    assert cli.run("ask", "-c", "-", stdin="Second?\n").code == 0
    assert cli.said("new") == ["First?", "One.", "Second?\n", "Two."]


def test_json_is_one_object_for_an_answer(cli: CommandLine) -> None:
    done = cli.run("ask", "Rain?", "--json", *cli.plays(*RAIN), "--yes", "write", "--yes", "run")
    told = done.value
    fields = ["answer", "calls", "changes", "held", "loaded", "status", "thread", "usage"]
    assert (done.code, sorted(told)) == (0, fields)
    assert (told["status"], told["answer"], told["loaded"]) == ("done", ANSWER, ["rain-gauge"])
    assert told["usage"]["this_turn"]["script_runs"] == 1
    (call,) = told["calls"]
    assert (call["tool"], call["decision"], "--yes run" in call["reason"]) == ("run_script", "allow", True)


def test_json_is_one_object_for_an_open_question(cli: CommandLine) -> None:
    """Who says something new drops the question; who answers it has the call run."""
    ask = ("ask", "Write a note", "--thread", "t", "--model")
    done = cli.run(*ask, cli.script(WRITE, "As you like.", WRITE, "Written."), "--json")
    told = done.value
    assert (done.code, told["status"]) == (3, "waiting")
    assert told["interrupt"]["action_requests"][0]["args"] == {"path": "note.txt", "content": "hi"}
    assert told["resume"] == "skills-agent resume t --approve"
    dropped = cli.run("ask", "Never mind", "--thread", "t")
    assert (dropped.code, dropped.out.endswith("As you like.\n")) == (0, True)
    assert not (cli.workspace / "note.txt").exists()
    assert cli.run("ask", "Do it", "--thread", "t").code == 3
    seen = cli.run("resume", "t", "--approve", "--json", "--workspace", str(cli.workspace))
    assert (seen.value["answer"], (cli.workspace / "note.txt").read_text()) == ("Written.", "hi")


def test_a_model_that_fails_is_one_line_and_the_thread_can_go_on(cli: CommandLine) -> None:
    done = cli.run("ask", "What is here?", "--json", "--model", cli.script(calls(call("list_dir"))))
    told = done.value
    assert (done.code, done.err.count("\n"), told["status"]) == (1, 1, "error")
    assert told["resume"] == f"skills-agent resume {told['thread']}"
    assert told["error"] in done.err
    assert told["resume"] in done.err
    cli.script(calls(call("list_dir")), "A table of rainfall.")
    assert cli.run("resume", told["thread"]).out.endswith("A table of rainfall.\n")


def test_what_policy_refuses_is_told_once(cli: CommandLine) -> None:
    ask = ("ask", "Note", "--model", cli.script(WRITE, "I may not."))
    for done in (cli.run(*ask, *how, SKILLS_AGENT_APPROVAL="deny") for how in ([], ["--json"])):
        assert (done.code, done.errors, done.out.count("needs an approval")) == (0, "", 1)


def test_a_run_that_must_not_ask_ends_with_the_command_that_asks(cli: CommandLine) -> None:
    """cases.md 21."""
    done = cli.run("ask", "Rain?", *cli.plays(*RAIN), "--thread", "t", SKILLS_AGENT_APPROVAL="fail")
    assert (done.code, "run_script" in done.err) == (1, True)
    variable, _, command = done.err.rpartition(": ")[2].strip().partition(" ")
    asked = cli.run(*shlex.split(command)[1:], **dict([variable.split("=")]))
    assert asked.code == 3
    assert cli.run("resume", "t", "--approve").out.endswith(f"{ANSWER}\n")


def test_a_warning_is_printed_that_no_line_of_progress_says(cli: CommandLine) -> None:
    cli.write(".agent/runs", "in the way")
    done = cli.run("ask", "Hello", "--model", cli.script("Hello."))
    assert (done.code, done.errors.count("\n"), "audit" in done.errors) == (0, 1, True)
    steps = "".join(step.read_text() for step in (Path(__file__).parents[3] / "nodes").glob("*.py"))
    assert all(f'"{message}"' in steps for message in IN_PROGRESS)


def test_what_was_said_is_kept_outside_of_the_workspace_for_this_user_alone(cli: CommandLine) -> None:
    cli.run("ask", "Rain?", "--model", cli.script("Yes."))
    kept = [cli.state.parent, cli.state, *cli.state.rglob("*")]
    assert {"threads.sqlite", "workspace"} < {path.name for path in kept}
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    assert (cli.state / "workspace").read_text() == f"{cli.workspace}\n"
    assert [path.name for path in (cli.workspace / ".agent").iterdir()] == ["runs"]


def test_what_is_piped_in_is_attached_to_the_question(cli: CommandLine) -> None:
    text = "station,mm\n$rain-gauge,3\n"
    done = cli.run("ask", "How much?", "--thread", "t", *cli.plays("3."), "--json", stdin=text)
    assert done.value["loaded"] == []  # a name in it is no request for a skill
    question, _, attached = cli.said("t")[0].partition("\n\n")
    assert question == "How much?"
    assert attached.endswith(f"(2 lines, to the end of this message):\n\n{text}")
    for piped in ("x" * 100_001, "x\0y"):
        done = cli.run("ask", "How much?", "--model", cli.script("Much."), stdin=piped)
        assert (done.code, done.out, "name the file" in done.err) == (2, "", True)


@pytest.mark.slow
def test_a_pipe_that_nobody_writes_to_keeps_no_question_waiting(cli: CommandLine) -> None:
    process = cli.start_piped("ask", "How much?", "--model", cli.script("Much."))
    assert process.stdout
    assert process.stderr
    assert process.stdout.read() == "Much.\n"
    assert "stdin" in process.stderr.read()
    process.communicate()
    assert process.returncode == 0
