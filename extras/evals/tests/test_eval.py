"""skills-agent eval: what it prints, what it keeps, and how it exits."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import RAIN_SKILL, CommandLine, Finished
from tests.machine import needs_part
from tests.openai_server import KEY, Call, Completion, openai_server
from tests.stubborn import processes_with
from tests.waiting import PATIENCE, until

CASES = """\
version: 1
cases:
  - id: hello
    request: Say hello.
    expect: {answer: hello}
    replies: [hello]
  - id: rain
    skill: rain-gauge
    kind: trigger
    request: How much rain fell?
    expect: {skills: rain-gauge}
    replies: [{tool_calls: [{name: load_skill, args: {name: rain-gauge}}]}]
"""
LOADING = Completion(calls=[Call("load_skill", {"name": "rain-gauge"}, "c1")])
FAILING = """\
  - id: bye
    request: Say bye.
    expect: {answer: bye}
    replies: [hello]
"""


@pytest.fixture
def evals(cli: CommandLine) -> CommandLine:
    """Return the command line with two cases beside the skill rain-gauge."""
    write_cases(cli, CASES)
    return cli


def write_cases(cli: CommandLine, text: str, name: str = "cases.yaml") -> Path:
    file = cli.skills / "rain-gauge" / "evals" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def run(cli: CommandLine, *args: str, model: str = "scripted", **variables: str) -> Finished:
    return cli.run("eval", str(cli.skills), "--model", model, *args, **variables)


def heads(cli: CommandLine) -> list[dict[str, Any]]:
    files = sorted((cli.workspace / ".agent" / "eval-runs").glob("*/run.json"))
    return [json.loads(file.read_text()) for file in files]


def amend(cli: CommandLine, **fields: Any) -> None:
    """Change the head of the newest run."""
    files = (cli.workspace / ".agent" / "eval-runs").glob("*/run.json")
    file = max(files, key=lambda each: each.stat().st_mtime_ns)
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def results(cli: CommandLine) -> list[dict[str, Any]]:
    (file,) = (cli.workspace / ".agent" / "eval-runs").glob("*/results.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_all_passed_is_0_and_one_that_did_not_is_1_unless_a_threshold_decides(evals: CommandLine) -> None:
    done = run(evals)
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("2 of 2 runs passed: 100 %")
    assert "1/2  passed" in done.err
    write_cases(evals, CASES + FAILING)
    failed = run(evals, "--fail-under", "passed=0.9")
    assert failed.code == 1
    assert 'The answer contains "bye".' in failed.out
    assert "passed" in failed.err.splitlines()[-1]
    assert run(evals, "--fail-under", "passed=0.5").code == 0


@needs_part("pages")
def test_json_is_one_value_and_the_page_is_a_file(evals: CommandLine) -> None:
    done = run(evals, "--json", "--html", "page.html")
    assert (done.code, done.errors) == (0, "")
    assert [each["case"] for each in done.value["cases"]] == [
        "rain-gauge.cases/hello",
        "rain-gauge.cases/rain",
    ]
    assert "<title>Evals of rain-gauge</title>" in (evals.workspace / "page.html").read_text()


def test_no_cases_say_where_it_looked_and_how_to_begin(cli: CommandLine) -> None:
    done = cli.run("eval")
    assert done.code == 2
    assert str(cli.workspace) in done.err
    example = done.err.partition(".agent/evals/first.yaml:\n")[2].partition("\nerror")[0]
    cli.write(
        ".agent/evals/first.yaml", "".join(line.removeprefix("  ") for line in example.splitlines(True))
    )
    assert cli.run("eval", "--model", "offline").code in {0, 1}
    assert len(heads(cli)[0]["cases"]) == 1


def cut_off(cli: CommandLine) -> None:
    """Run the cases, and leave what is there of a run that was killed after the first."""
    run(cli)
    (folder,) = (cli.workspace / ".agent" / "eval-runs").glob("2*")
    lines = (folder / "results.jsonl").read_text().splitlines(keepends=True)
    (folder / "results.jsonl").write_text(lines[0])
    amend(cli, partial="it was cut off")


def test_resume_goes_on_with_the_newest_run_that_was_cut_off(evals: CommandLine) -> None:
    cut_off(evals)
    file = write_cases(evals, CASES.replace("expect: {answer: hello}", "expect: {answer: bye}"))
    done = evals.run("eval", "--resume")
    assert (done.code, "1 case changed since" in done.err, file.name in done.err) == (1, True, True)
    write_cases(evals, CASES)
    assert evals.run("eval", "--resume").code == 0
    ended = sorted(each["case"] for each in results(evals))
    assert ended == ["rain-gauge.cases/hello", "rain-gauge.cases/rain"]
    assert "partial" not in heads(evals)[0]
    assert evals.run("eval", "--resume").code == 1


def test_last_is_the_newest_other_run_that_ended(evals: CommandLine) -> None:
    assert run(evals, "--baseline", "last").code == 2
    ended = run(evals, "--json").value["head"]
    run(evals)
    amend(evals, partial="it was cut off")
    assert run(evals, "--baseline", "last", "--json").value["before"]["id"] == ended["id"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--resume", "--model", "offline"), "as it was begun"),
        (("--record", "--replay"), "leave out one"),
        (("--resume", "nothing"), "no such run"),
        (("--fail-under", "luck=0.9"), "Metrics: passed"),
        (("--model", "openai:gpt-5-mini"), "export OPENAI_API_KEY"),
    ],
)
def test_wrong_usage_is_one_sentence(evals: CommandLine, args: tuple[str, ...], says: str) -> None:
    words = () if args[0] == "--resume" else (str(evals.skills),)
    done = evals.run("eval", *words, *args)
    assert done.code in {1, 2}
    assert says in done.err
    assert not heads(evals)


def test_what_was_recorded_is_played_without_a_key(evals: CommandLine) -> None:
    with openai_server() as server:
        server.respond = lambda body: LOADING if "rain" in str(body["messages"][-1]) else Completion("hello")
        variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
        recorded = run(evals, "--record", model="openai:m", **variables)
        assert (recorded.code, len(server.requests)) == (0, 2)
    assert run(evals, "--replay", model="openai:m").code == 0
    files = [each.name for each in (evals.skills / "rain-gauge" / "evals" / "recordings").iterdir()]
    assert sorted(files) == ["rain-gauge.cases-hello.openai-m.jsonl", "rain-gauge.cases-rain.openai-m.jsonl"]


def test_the_model_that_is_measured_is_asked_and_none_that_the_skill_names(evals: CommandLine) -> None:
    evals.write_skill(RAIN_SKILL.replace("\n---\n\n", "\nmodel: openai:other\n---\n\n"))
    with openai_server() as server:
        server.respond = lambda body: (
            LOADING if body["messages"][-1]["role"] == "user" else Completion("hello")
        )
        variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
        run(evals, model="openai:m", **variables)
        asked = {(each.body["messages"][-1]["role"], each.body["model"]) for each in server.requests}
        assert asked == {("user", "m"), ("tool", "m")}


def test_a_rubric_is_graded_where_a_grader_is_chosen(evals: CommandLine) -> None:
    case = "{id: a, request: r, expect: {rubric: It is polite.}, replies: [Dear reader.]}"
    write_cases(evals, f"version: 1\ncases:\n  - {case}\n")
    plain = run(evals)
    assert (plain.code, results(evals)[0]["outcome"]) == (1, "ungraded")
    verdict = json.dumps({"points": [{"point": 1, "reason": "rude", "holds": False}]})
    graded = run(evals, "--grader", evals.script(verdict), "--json")
    assert graded.code == 1
    (check,) = graded.value["cases"][0]["runs"]["with"][0]["checks"]
    assert check["evidence"] == "0 of 3 votes say that it holds. rude"


def test_the_threads_of_cases_are_none_to_go_on_with(evals: CommandLine) -> None:
    run(evals)
    done = evals.run("ask", "-c", "And?", "--model", evals.script("Hm."))
    assert done.code == 1
    assert "There is no thread here yet" in done.err
    assert evals.run("threads", "list", "--json").value == []


SLOW = """\
import pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text("x")
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def endless(evals: CommandLine) -> CommandLine:
    """Return the command line with two quick cases, and one whose script never ends."""
    (evals.skills / "rain-gauge" / "scripts" / "slow.py").write_text(SLOW)
    slow = call("run_script", skill="rain-gauge", path="scripts/slow.py", args=["started"])
    replies = [calls(call("load_skill", name="rain-gauge")), calls(slow), "done"]
    more = {"id": "slow1", "request": "r", "expect": {"answer": "x"}, "replies": replies}
    write_cases(evals, f"{CASES}  - {json.dumps(more)}\n")
    return evals


def wait_for(cli: CommandLine, count: int) -> None:
    """Wait until so many results are kept."""
    folder = cli.workspace / ".agent" / "eval-runs"
    until(lambda: any(file.read_text().count("\n") >= count for file in folder.glob("*/results.jsonl")))


@pytest.mark.slow
def test_a_signal_keeps_what_is_done_and_says_how_to_go_on(endless: CommandLine) -> None:
    process = endless.start("eval", str(endless.skills), "--model", "scripted", "--yes", "run")
    wait_for(endless, 2)
    until(lambda: bool(processes_with("slow.py started")))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    run_id = heads(endless)[0]["id"]
    assert f"to go on: skills-agent eval --resume {run_id} --yes run" in err
    assert "\n2 of 2 runs passed" in out
    assert sorted(each["case"].rpartition("/")[2] for each in results(endless)) == ["hello", "rain"]
    assert not processes_with("slow.py started")
    (endless.skills / "rain-gauge" / "scripts" / "slow.py").write_text("")
    assert endless.run("eval", "--resume", "--yes", "run").code == 1
    ended = [each["case"].rpartition("/")[2] for each in results(endless)]
    assert (sorted(ended[:2]), ended[2:]) == (["hello", "rain"], ["slow1"])


@pytest.mark.slow
def test_a_killed_run_goes_on_and_counts_nothing_twice(evals: CommandLine) -> None:
    cases = "".join(
        f"  - {{id: c{number}, request: r, expect: {{answer: hello}}, replies: [hello]}}\n"
        for number in range(8)
    )
    write_cases(evals, f"version: 1\ncases:\n{cases}")
    process = evals.start("eval", str(evals.skills), "--model", "scripted", "--repeat", "2")
    wait_for(evals, 1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert evals.run("eval", "--resume").code == 0
    keys = [(each["case"], each.get("repeat", 0)) for each in results(evals)]
    assert len(keys) == len(set(keys)) == 16
    assert "partial" not in heads(evals)[0]
