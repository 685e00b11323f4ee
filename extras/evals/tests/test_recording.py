"""Answers of providers are kept beside the cases, and played without a key or a network."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from msgspec import structs

from extras.evals.tests.cases import case, make_setup
from skills_agent.evals.cases.case import EvalCase, Expected, ExpectedText
from skills_agent.evals.cases.result import EvalResult
from skills_agent.evals.recording import Recordings, names_here, plain_request, recording_of
from skills_agent.evals.running import Setup, run_case
from skills_agent.graph.threads.database import open_database
from tests.machine import needs_bwrap
from tests.openai_server import KEY, Call, Completion, OpenAIServer

MODEL = "openai:loopback"


@pytest.fixture
def one(tmp_path: Path) -> EvalCase:
    return case(
        turns=("Write hello into a file.",),
        files={"n.txt": "1 2"},
        file=f"{tmp_path / 'skills' / 'adder' / 'evals' / 'evals.json'}#1",
        expect=Expected(answer=ExpectedText(contains=("wrote it",))),
    )


def run(setup: Setup, one: EvalCase, mode: str = "replay", model: str = MODEL) -> EvalResult:
    places = [setup.settings.workspace.parent / "skills"]
    kept = Recordings(setup.settings, places, is_played=mode == "replay", anew=True)
    return run_case(one, model, "with", 0, replace(setup, model_of=kept.model_of))


def record(setup: Setup, one: EvalCase, server: OpenAIServer) -> EvalResult:
    Path(one.file).parent.mkdir(exist_ok=True)
    write = Call("write_file", {"path": "x.md", "content": "hello"}, "c1")
    server.answers.extend([Completion("I write.", [write]), Completion("I wrote it.")])
    return run(setup, one, "record")


def test_without_a_recording_or_of_another_prompt_it_says_how_to_make_one(
    setup: Setup, one: EvalCase, server: OpenAIServer, tmp_path: Path
) -> None:
    none = run(setup, one)
    assert (none.outcome, "there is no such recording; make it with --record." in none.error) == (
        "error",
        True,
    )
    record(setup, one, server)
    skill = tmp_path / "skills" / "poet" / "SKILL.md"
    skill.write_text(skill.read_text().replace("Write a poem", "Compose an ode"))
    changed = run(setup, one)
    assert (changed.outcome, "--record" in changed.error) == ("error", True)


@needs_bwrap
def test_a_recording_changes_no_prompt_and_is_made_anew(
    setup: Setup, one: EvalCase, server: OpenAIServer
) -> None:
    record(setup, one, server)
    file = recording_of(one, MODEL)
    before = file.read_bytes()
    assert file.parent.name == "recordings"
    record(setup, one, server)
    keys = [json.loads(line)["key"] for line in before.splitlines()]
    assert [json.loads(line)["key"] for line in file.read_bytes().splitlines()] == keys
    assert len(set(keys)) == 2


def test_no_secret_is_in_a_recording(
    setup: Setup, one: EvalCase, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "hunter2-hunter2")
    told = structs.replace(one, turns=(f"The token is hunter2-hunter2, the key {KEY}.",))
    record(setup, told, server)
    content = recording_of(one, MODEL).read_text()
    assert "hunter2" not in content
    assert KEY not in content
    assert str(setup.settings.workspace.parent) not in content


@pytest.mark.parametrize("line", ["{}", "no json", '{"key": "", "repeat": 0, "request": {}, "answer": 5}'])
def test_a_file_that_is_no_recording_is_an_error(setup: Setup, one: EvalCase, line: str) -> None:
    file = recording_of(one, MODEL)
    file.parent.mkdir(parents=True)
    file.write_text(f"{line}\n")
    result = run(setup, one)
    assert (result.outcome, ".jsonl is no recording" in result.error) == ("error", True)


def test_a_link_leads_no_recording_out_of_the_folder(
    setup: Setup, one: EvalCase, server: OpenAIServer, tmp_path: Path
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    Path(one.file).parent.mkdir()
    (Path(one.file).parent / "recordings").symlink_to(elsewhere)
    result = record(setup, one, server)
    assert (result.outcome, list(elsewhere.iterdir())) == ("error", [])
    assert "cannot be written" in result.error
    (file := recording_of(one, MODEL)).parent.unlink()
    file.parent.mkdir()
    file.symlink_to(elsewhere / "new")
    assert record(setup, one, server).outcome == "error"
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("mode", ["record", "replay"])
def test_the_models_of_this_process_are_not_recorded(setup: Setup, mode: str) -> None:
    told = case(replies=("Hello.",), file="")
    assert run(setup, told, mode, "scripted").trajectory.answer == "Hello."


NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def plain(folder: str, messages: list[Any], tools: Any = (), now: datetime = NOW) -> dict[str, Any]:
    return plain_request(messages, tools, names_here({folder: "<skills>"}, now))


def test_a_request_is_the_same_on_another_machine_and_day_and_in_other_blocks() -> None:
    tool = {"type": "function", "function": {"name": "add"}}
    mark = {"cache_control": {"type": "ephemeral"}}

    def prompt(place: str, folder: str, call: str, day: str, **marked: Any) -> list[Any]:
        texts: list[Any] = [f"In {folder}.", f"It is {day}T10:00:00Z.", "The file is of 2020-01-01."]
        blocks = [{"type": "text", "text": text, **marked} for text in texts] if marked else texts
        return [
            SystemMessage(blocks[:1] if marked else texts[0]),
            HumanMessage(blocks[1:]),
            AIMessage("", tool_calls=[{"name": "x", "args": {"path": f"{place}/work/a"}, "id": call}]),
            ToolMessage("exit code 0 (0.21 s, bwrap)", tool_call_id=call),
        ]

    said = prompt("/tmp/skills-agent-eval-ab_12", "/home/a/skills/x", "call_1", "2026-11-23", **mark)
    here = plain("/home/a/skills", said, [{**tool, **mark}])
    said = prompt("/var/tmp/x/skills-agent-eval-zz", "/ci/skills/x", "toolu_9", "2027-02-21")
    assert here == plain("/ci/skills", said, [tool], now=NOW + timedelta(days=90))
    assert "2020-01-01" in str(here["messages"][1])


def test_a_recording_made_on_one_machine_is_played_on_another(
    setup: Setup, one: EvalCase, server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(one.file).parent.mkdir()
    load = Call("load_skill", {"name": "adder"}, "c1")
    ran = Call("run_script", {"skill": "adder", "path": "scripts/add.py", "args": ["n.txt"]}, "c2")
    server.answers.extend([Completion("", [load]), Completion("", [ran]), Completion("I wrote it: 3.")])
    allowed = replace(setup, yes=frozenset({"run"}))
    first = run(allowed, one, "record")
    assert (first.outcome, first.error) == ("passed", "")
    assert [each.status for each in first.trajectory.calls] == ["ok", "ok"]
    monkeypatch.delenv("OPENAI_API_KEY")

    elsewhere = tmp_path / "elsewhere" / "checkout"
    shutil.copytree(tmp_path / "skills", elsewhere / "skills")
    (elsewhere / "workspace").mkdir()
    settings = replace(setup.settings, workspace=elsewhere / "workspace", home=elsewhere / "home")
    with open_database(settings) as saver:
        there = make_setup(settings, saver, elsewhere / "skills", yes=frozenset({"run"}))
        moved = structs.replace(one, file=one.file.replace(str(tmp_path), str(elsewhere)))
        again = run(there, moved)
    assert (again.outcome, again.error) == ("passed", ""), again.error
    assert [each.tool for each in again.trajectory.calls] == ["load_skill", "run_script"]
