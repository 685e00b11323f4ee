"""One eval case is run: a fresh workspace, the agent as it is, and an outcome for whatever happens."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import RunControl
from pydantic import Field

from extras.evals.tests.cases import ADDER, case
from skills_agent.evals.cases.case import EvalCase, Expected, ExpectedSkills, ExpectedText
from skills_agent.evals.cases.result import EvalResult, RunHead
from skills_agent.evals.cases.run_folder import RunFolder
from skills_agent.evals.cases.trajectory import Budget
from skills_agent.evals.running import Setup, run_case
from skills_agent.evals.runs import missing, run_all
from skills_agent.evals.skill_folders import catalog_folders, sources_of
from skills_agent.graph import build_graph
from skills_agent.graph.kept_folders import homes_of
from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.graph.threads.threads import Threads
from tests.agents import call, calls, write_skill
from tests.machine import needs_bwrap, needs_part


def run(setup: Setup, one: EvalCase, arm: Any = "with") -> EvalResult:
    return run_case(one, "scripted" if one.replies else "offline", arm, 0, setup)


ADD = calls(call("run_script", skill="adder", path="scripts/add.py"))


def run_script(setup: Setup, skills: Path, text: str) -> EvalResult:
    """Run a case in which the script of the skill is called, which is this text."""
    (skills / "adder" / "scripts" / "add.py").write_text(text)
    return run(setup, case(load=("adder",), replies=(ADD, "Done.")))


@needs_bwrap
def test_a_case_is_a_thread_with_a_workspace_of_its_own(setup: Setup) -> None:
    one = case(
        turns=("What is the total of the numbers in n.txt?",),
        files={"n.txt": "1 2 3"},
        expect=Expected(answer=ExpectedText(contains=("total 6",)), skills=ExpectedSkills(names=("adder",))),
    )
    result = run(setup, one)
    assert (result.outcome, result.error) == ("passed", "")
    assert result.trajectory.chosen == ("adder",)
    made = [(each.tool, each.status) for each in result.trajectory.calls]
    assert made == [("load_skill", "ok"), ("run_script", "ok")]
    assert result.spent.model_calls == 3
    assert result.spent.tokens > 0
    assert not list(setup.settings.workspace.iterdir())
    assert result.thread.startswith("eval-run-a-1-offline-with-1-")


@needs_bwrap
@pytest.mark.parametrize("request_", ["/adder n.txt", "What is the total of the numbers in n.txt?"])
def test_what_a_fork_called_is_told_whoever_asked_for_it(setup: Setup, skills: Path, request_: str) -> None:
    file = skills / "adder" / "SKILL.md"
    file.write_text(file.read_text().replace("---\n", "---\ncontext: fork\n", 1))
    result = run(setup, case(turns=(request_,), files={"n.txt": "1 2 3"}))
    by_model = [] if request_.startswith("/") else ["load_skill"]
    assert [each.tool for each in result.trajectory.calls] == [*by_model, "run_script"]


def test_without_the_skill_nobody_asks_for_it_and_only_what_came_out_counts(setup: Setup) -> None:
    expect = Expected(answer=ExpectedText(contains=("6",)), skills=ExpectedSkills(names=("adder",)))
    one = case(load=("adder", "poet"), replies=("Hello.",), expect=expect)
    result = run(setup, one, "without")
    assert (result.outcome, [each.kind for each in result.checks]) == ("failed", ["answer"])
    agent = build_graph(setup.settings).compile(checkpointer=setup.saver)
    messages = Threads(agent).read(result.thread).messages
    assert [call.args for each in messages for call in each.calls] == [{"name": "poet"}]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("Please add up the numbers in n.txt", ("adder",)), ("What is the capital of Norway?", ())],
)
def test_a_trigger_case_ends_when_the_model_has_chosen(
    setup: Setup, text: str, chosen: tuple[str, ...]
) -> None:
    expected = ExpectedSkills(names=("adder",)) if chosen else ExpectedSkills(mode="none")
    result = run(setup, case(kind="trigger", turns=(text,), expect=Expected(skills=expected)))
    assert (result.outcome, result.trajectory.chosen) == ("passed", chosen)
    assert result.spent.model_calls == 1


def test_what_a_skill_of_the_case_requires_is_no_choice_of_the_model(setup: Setup, skills: Path) -> None:
    write_skill(skills, "pair", "Both of them.\nrequires: adder")
    expect = Expected(skills=ExpectedSkills(mode="none"))
    result = run(setup, case(load=("pair",), replies=("Done.",), expect=expect))
    assert result.outcome == "passed"


def test_a_file_that_is_written_is_looked_at_and_then_gone(setup: Setup, tmp_path: Path) -> None:
    def kept() -> set[Path]:
        return {each for each in (tmp_path / "XDG_STATE_HOME/skills-agent").iterdir() if each.is_dir()}

    before = kept()
    one = case(
        replies=(calls(call("write_file", path="out/x.md", content="hello")), "Done."),
        expect=Expected(files={"out/*.md": ExpectedText(contains=("hello",))}),
    )
    result = run(replace(setup, yes=frozenset({"write"})), one)
    assert (result.outcome, [*result.trajectory.files]) == ("passed", ["out/x.md"])
    assert kept() == before


@needs_part("web")
def test_what_goes_wrong_is_an_outcome_that_says_why(setup: Setup) -> None:
    fetch = calls(call("fetch_url", url="https://example.com"))
    refused = run(setup, case(replies=(fetch,)))
    assert (refused.outcome, "--yes network" in refused.error) == ("refused", True)
    ended = run(setup, case(replies=(calls(call("load_skill", name="adder")),)))
    assert (ended.outcome, "script" in ended.error) == ("error", True)
    broken = run(replace(setup, model_of=lambda *_: 1 / 0), case())  # type: ignore[arg-type]
    assert (broken.outcome, broken.error) == ("error", "ZeroDivisionError: division by zero")


@needs_bwrap
@pytest.mark.parametrize("asked", [{"run", "network"}, {"run"}])
def test_a_script_with_a_host_needs_the_network(setup: Setup, asked: set[str]) -> None:
    """Also where the operator asks nobody about the network."""
    settings = replace(setup.settings, require_approval_for=frozenset(asked))
    fetch = calls(call("run_script", skill="adder", path="scripts/add.py", network=["example.com"]))
    result = run(replace(setup, settings=settings), case(load=("adder",), replies=(fetch, "Done.")))
    assert (result.outcome, result.error.rpartition(" --yes ")[2]) == ("refused", "run,network")


def test_no_link_beside_a_case_leads_a_file_out_of_its_folder(setup: Setup, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (files := tmp_path / "cases" / "files").mkdir(parents=True)
    (files / "link.txt").symlink_to(tmp_path / "secret.txt")
    (files / "good.txt").write_text("good")

    def laying(source: Path, **more: Any) -> EvalResult:
        copies = {"in": str(source)}
        return run(setup, case(copies=copies, file=f"{files.parent}/c.yaml#3", replies=("x",), **more))

    for source in (files, files / "link.txt"):
        result = laying(source)
        assert (result.outcome, "link.txt" in result.error) == ("error", True)
    (files / "link.txt").unlink()
    expect = Expected(files={"in/good.txt": ExpectedText(equals="own")})
    assert laying(files, expect=expect).outcome == "failed"
    assert laying(files, expect=expect, files={"in/good.txt": "own"}).outcome == "passed"
    for path in ("../x", "/x", "a/../../x"):
        result = run(setup, case(files={path: "x"}))
        assert (result.outcome, "leads out" in result.error) == ("error", True)


def test_no_check_outside_of_the_folder_of_the_case_is_run(setup: Setup, tmp_path: Path) -> None:
    (script := tmp_path / "other.py").write_text("")
    (tmp_path / "cases").mkdir()
    expect = Expected(scripts=((str(script),),))
    one = case(file=str(tmp_path / "cases" / "c.yaml"), replies=("x",), expect=expect)
    result = run(replace(setup, yes=frozenset({"run"})), one)
    assert (result.outcome, "not in the folder" in result.checks[0].evidence) == ("failed", True)


def test_the_agent_does_not_see_the_expected_answers(setup: Setup, skills: Path) -> None:
    (skills / "adder" / "evals").mkdir()
    for path in ("evals/evals.json", "evals.yaml"):
        (skills / "adder" / path).write_text('{"answer": 42}')
        read = calls(call("read_resource", skill="adder", path=path))
        (made,) = run(setup, case(load=("adder",), replies=(read, "Done."))).trajectory.calls
        assert (made.status, "scripts/add.py" in made.result, "42" in made.result) == ("error", True, False)


class Seen(ScriptedChatModel):
    """Plays replies, and keeps what it was sent."""

    requests: list[tuple[str, frozenset[str]]] = Field(default_factory=list)
    schemas: list[str] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.schemas.append(json.dumps([convert_to_openai_tool(tool) for tool in tools]))
        return super().bind_tools(tools, **kwargs)

    def reply(self, messages: Any, tools: frozenset[str], records: Any) -> Any:
        text = "\n".join(f"{each.type}: {each.content}" for each in messages)
        self.requests.append((text, tools))
        return super().reply(messages, tools, records)


def test_a_case_shows_the_model_the_prompt_that_a_question_shows_it(setup: Setup) -> None:
    """The sources were named `eval-1a2b3c4d-project`, and small models copied that."""
    settings = replace(setup.settings, bundled_skills=True)
    write_skill(settings.workspace / ".agent" / "skills", *ADDER)
    write_skill(settings.workspace / ".agent" / "skills", "csv-report", "Hides the bundled one.")
    replies = [calls(call("load_skill", name="adder")), "Done."]
    asked, evaluated = Seen(script=replies), Seen(script=replies)
    agent = build_graph(settings, model=asked).compile(checkpointer=InMemorySaver())
    agent.invoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "1"}})
    setup = replace(
        setup,
        settings=settings,
        sources=lambda: sources_of(settings, [settings.workspace]),
        model_of=lambda *_: evaluated,
    )
    result = run(setup, case(replies=("x",)))
    assert result.trajectory.chosen == ("adder",)
    assert len(asked.requests) == 2
    place = re.compile(r"/\S*/skills-agent-eval-[A-Za-z0-9_]+/\d+/work")
    here = str(settings.workspace)
    assert [(place.sub(here, text), tools) for text, tools in evaluated.requests] == asked.requests
    assert [place.sub(here, text) for text in evaluated.schemas] == asked.schemas


@needs_bwrap
def test_what_a_script_keeps_in_a_case_is_gone_with_it(setup: Setup, skills: Path) -> None:
    """The sources have the names that they have for any question, and so have homes."""
    keeps = "from pathlib import Path\nnote = Path.home() / 'x'\nprint('kept', note.exists())\nnote.touch()\n"
    for _ in range(2):
        (made,) = run_script(setup, skills, keeps).trajectory.calls
        assert "kept False" in made.result
    assert not list(homes_of(setup.settings))


@needs_bwrap
def test_what_a_person_would_be_asked_about_comes_into_the_workspace_of_a_case(
    setup: Setup, skills: Path
) -> None:
    writes = "import os\nopen('go.sh', 'w').write('#!/bin/sh')\nos.chmod('go.sh', 0o755)\n"
    result = run_script(setup, skills, writes)
    assert (result.outcome, [*result.trajectory.files]) == ("ungraded", ["go.sh"])


@needs_bwrap
@pytest.mark.slow
def test_a_case_that_takes_too_long_is_given_up_with_its_script(setup: Setup, skills: Path) -> None:
    (skills / "adder" / "scripts" / "add.py").write_text("import time; time.sleep(60)\n")
    one = case(turns=("total of the numbers in n.txt",), files={"n.txt": "1"}, seconds=2.0)
    result = run(setup, one)
    assert (result.outcome, result.error) == ("timeout", "It was given up after 2 seconds.")
    assert result.spent.seconds < 20


@needs_bwrap
def test_a_program_of_the_case_judges_the_workspace_in_the_sandbox(setup: Setup, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("open('x.md').read() == 'hello' or exit(1)\n")
    bad.write_text("print('too short'); exit(3)\n")
    wrote = (calls(call("write_file", path="x.md", content="hello")), "Done.")
    for script, outcome in ((good, "passed"), (bad, "failed")):
        expect = Expected(scripts=((str(script),),))
        result = run(setup, case(replies=wrote, expect=expect))
        assert result.outcome == outcome
    assert "too short" in result.checks[0].evidence


def test_a_program_of_the_case_is_not_run_without_a_sandbox_unless_somebody_says_so(
    setup: Setup, tmp_path: Path
) -> None:
    (script := tmp_path / "ran.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    plain = replace(setup, settings=replace(setup.settings, sandbox="off"))
    one = case(replies=("Done.",), expect=Expected(scripts=((str(script),),)))
    result = run(plain, one)
    assert result.outcome == "refused"
    assert all(word in result.error for word in ("ran.py", "--yes run"))
    assert not (tmp_path / "ran").exists()
    assert run(replace(plain, yes=frozenset({"run"})), one).outcome == "passed"


def test_the_skills_of_a_case_are_those_beside_its_own(skills: Path, tmp_path: Path) -> None:
    assert catalog_folders([skills / "adder"]) == (skills,)
    assert catalog_folders([skills / "adder" / "evals" / "evals.json"]) == (skills,)
    assert catalog_folders([skills]) == (skills,)
    assert catalog_folders([tmp_path / "nothing"]) == ()


def test_a_run_goes_on_where_it_was_and_counts_nothing_twice(setup: Setup) -> None:
    cases = tuple(case(id=f"c{at}", kind="trigger", turns=(f"add numbers {at}",)) for at in range(4))
    head = RunHead(id="run", at="", models=("offline",), cases=cases)
    folder = RunFolder.create(setup.settings.workspace, head)
    stop, told = RunControl(), list[EvalResult]()

    def tell(result: EvalResult) -> None:
        told.append(result)
        if len(told) == 2:
            stop.request_drain()

    assert run_all(folder, setup, jobs=1, stop=stop, tell=tell) == "it was interrupted"
    assert [each.case for each in folder.results()] == ["c0", "c1"]
    for more in (Budget(1), None):
        done = folder.results()
        partial = run_all(folder, setup, jobs=1 if more else 2, stop=RunControl(), done=done, budget=more)
        assert partial == ("its budget of 1 tokens is spent" if more else "")
        assert len(folder.results()) == (3 if more else 4)
    assert sorted(each.case for each in folder.results()) == ["c0", "c1", "c2", "c3"]
    assert not missing(folder.head, folder.results())


@needs_bwrap
def test_a_script_sees_neither_the_persons_home_nor_other_cases(
    setup: Setup, skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home := tmp_path / "home").mkdir(exist_ok=True)
    (home / "secret.txt").write_text("hunter2")
    (setup.settings.workspace / "secret.txt").write_text("hunter2")
    look = f"""
import os
for place in ({str(home)!r}, {str(setup.settings.workspace)!r}, {str(skills.parent)!r}):
    print(place, os.listdir(place) if os.path.isdir(place) else "")
print(os.environ.get("TOKEN"), sorted(os.listdir("..")))
"""
    monkeypatch.setenv("TOKEN", "hunter2-hunter2")
    given: Any = {
        "script_secrets": {"adder@configured": ("TOKEN",)},
        "script_folders": {"adder@configured": (str(home),)},
    }
    settings = replace(setup.settings, **given)
    (made,) = run_script(replace(setup, settings=settings), skills, look).trajectory.calls
    assert made.status == "ok", made.result
    assert "None [" in made.result
    assert "secret.txt" not in made.result
