"""exclude_tools and only_tools speak of skills, too: who excludes load_skill gets none loaded, by anybody."""

from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.settings import SettingsError
from skills_agent.state.context import Context, ContextError
from tests.agents import FREE, Agent, Recorder, call, calls, write_skill
from tests.kit import MakeAgent

ASKS = calls(
    *(call("load_skill", name=name) for name in ("x-one", "x-two", "y")),
    call("search_skills", query="Does one two z"),
)


@pytest.fixture(autouse=True)
def skills(skills_dir: Path) -> None:
    write_skill(skills_dir, "x-one", "Does x-one.")
    write_skill(skills_dir, "x-two", "Does x-two.")
    write_skill(skills_dir, "z", "Does z.")
    write_skill(skills_dir, "y", "Does y.\nrequires: [x-one]")


def loaded(agent: Agent) -> list[str]:
    return sorted(agent.values.get("skills_loaded") or {})


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        *((entry, []) for entry in ("load_skill", "Skill", "load_skill(*)")),
        *((entry, ["y"]) for entry in ("load_skill(x-*)", "Skill(x-*)", "Skill(x-*@project)")),
    ],
)
@pytest.mark.parametrize("who", ["operator", "caller"])
def test_nobody_meets_an_excluded_skill(make_agent: MakeAgent, entry: str, left: list[str], who: str) -> None:
    """Neither a person, nor the model, nor a skill that requires it."""
    narrowed: Any = {"exclude_tools": (entry,)}
    prompts = Recorder([ASKS, "done"])
    agent = make_agent(prompts.entries, **(narrowed if who == "operator" else {}))
    context = Context(**narrowed) if who == "caller" else None
    agent.say("/x-two now", skills=("x-one", "y"), context=context)
    assert loaded(agent) == left
    assert ("Does y" in prompts.texts[0], "Does x-" in prompts.texts[0]) == (bool(left), False)
    assert agent.tool_messages("load_skill")[0].status == "error"
    (answer,) = agent.tool_messages("search_skills")
    assert ("- z: " in answer.text, "x-" in answer.text) == (bool(left), False)


@pytest.mark.parametrize(
    ("only", "left"), [(("Skill(y)", "read_file"), ["y"]), (("read_file",), ["x-one", "x-two", "y"])]
)
def test_a_caller_allows_only_some_skills(make_agent: MakeAgent, only: Any, left: list[str]) -> None:
    prompts = Recorder([ASKS, "done"])
    agent = make_agent(prompts.entries)
    agent.say("go", context=Context(only_tools=only))
    assert loaded(agent) == left
    assert ("Does x-" in prompts.texts[0]) == (len(left) > 1)


@pytest.mark.parametrize(
    "entry", ["load_skill(", "Skill(a b)", "Wri*", "", "nosuchtool", "write_fil", "Writ(a.txt)"]
)
def test_what_nobody_understands_is_refused(make_agent: MakeAgent, entry: str) -> None:
    with pytest.raises(SettingsError, match="exclude_tools"):
        make_agent([], exclude_tools=(entry,))
    for field in ("exclude_tools", "only_tools"):
        with pytest.raises(ContextError, match=f"context.{field}: .* is not understood"):
            make_agent(["done"]).say("go", context=Context.model_validate({field: (entry,)}))


@pytest.mark.parametrize(
    "context", [Context(exclude_tools=("Write(out/*)",)), Context(only_tools=("Write(src/*)",))]
)
def test_a_caller_excludes_calls_by_pattern(make_agent: MakeAgent, workspace: Path, context: Context) -> None:
    writes = [call("write_file", path=path, content="x") for path in ("out/a", "src/a")]
    agent = make_agent([calls(*writes), "done"], **FREE)
    assert agent.say("go", context=context)["answer"] == "done"
    assert [path.name for path in workspace.iterdir() if path.name != ".agent"] == ["src"]
