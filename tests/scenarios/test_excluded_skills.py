"""exclude_tools and only_tools speak of skills, too: who excludes load_skill gets none loaded, by anybody."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from skills_agent.graph.settings import SettingsError
from skills_agent.state.context import Context, ContextError
from tests.agents import Agent, call, calls, write_skill
from tests.kit import MakeAgent

LOADS = calls(*(call("load_skill", name=name) for name in ("x-one", "x-two", "y")))


@pytest.fixture(autouse=True)
def skills(skills_dir: Path) -> None:
    for name in ("x-one", "x-two", "y"):
        write_skill(skills_dir, name, f"Does {name}.")


@pytest.fixture
def ask(make_agent: MakeAgent) -> Any:
    """Return a function that has every asker ask for every skill; it returns the agent and its prompts."""

    def make(
        context: Context | None = None, said: str = "go", skills: tuple[str, ...] = (), **settings: Any
    ) -> tuple[Agent, list[str]]:
        seen: list[str] = []

        def first(messages: Any) -> Any:
            seen.append("\n".join(str(each.content) for each in messages))
            return LOADS

        agent = make_agent([first, "done"], **settings)
        agent.say(said, skills=skills, context=context)
        return agent, seen

    return make


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
def test_nobody_loads_a_skill_that_is_excluded_and_none_is_shown(
    ask: Any, entry: str, left: list[str], who: str
) -> None:
    settings = {"exclude_tools": (entry,)} if who == "operator" else {}
    context = Context(exclude_tools=(entry,)) if who == "caller" else None

    agent, prompts = ask(context, said="/x-two now", skills=("x-one", "y"), **settings)

    assert loaded(agent) == left
    assert ("Does y" in prompts[0], "Does x-" in prompts[0]) == (bool(left), False)
    assert str(agent.tool_messages("load_skill")[0].status) == "error"


def test_a_caller_allows_only_some_skills(ask: Any) -> None:
    agent, prompts = ask(Context(only_tools=("Skill(y)", "read_file")))

    assert loaded(agent) == ["y"]
    assert "Does x-" not in prompts[0]
    assert loaded(ask(Context(only_tools=("read_file",)), thread="all")[0]) == ["x-one", "x-two", "y"]


def test_what_a_skill_requires_is_excluded_as_well(ask: Any, skills_dir: Path) -> None:
    file = skills_dir / "y/SKILL.md"
    file.write_text(file.read_text().replace("---\n\n", "requires: [x-one]\n---\n\n"))

    agent, _ = ask(exclude_tools=("Skill(x-*)",))

    assert loaded(agent) == ["y"]


@pytest.mark.parametrize(
    "entry", ["load_skill(", "Skill(a b)", "Wri*", "", "nosuchtool", "write_fil", "Writ(a.txt)"]
)
def test_what_nobody_understands_is_refused(ask: Any, entry: str) -> None:
    with pytest.raises(SettingsError, match="exclude_tools"):
        ask(exclude_tools=(entry,))
    for field in ("exclude_tools", "only_tools"):
        with pytest.raises(ContextError, match=f"context.{field}: .* is not understood"):
            ask(Context.model_validate({field: (entry,)}))


@pytest.mark.parametrize(
    "context", [Context(exclude_tools=("Write(out/*)",)), Context(only_tools=("Write(src/*)",))]
)
def test_a_caller_excludes_calls_by_pattern(make_agent: MakeAgent, workspace: Path, context: Context) -> None:
    writes = [call("write_file", path=path, content="x") for path in ("out/a", "src/a")]
    agent = make_agent([calls(*writes), "done"], require_approval_for=frozenset())
    agent.say("go", context=context)

    assert [path.name for path in workspace.iterdir() if path.name != ".agent"] == ["src"]
    assert isinstance(agent.transcript[-1], AIMessage)


@pytest.mark.parametrize("who", ["operator", "caller"])
def test_a_search_finds_no_skill_that_is_excluded_by_pattern(make_agent: MakeAgent, who: str) -> None:
    """The model was told of a skill, and to load it, that it may not load."""
    settings = {"exclude_tools": ("Skill(x-*)",)} if who == "operator" else {}
    context = Context(exclude_tools=("Skill(x-*)",)) if who == "caller" else None
    agent = make_agent([calls(call("search_skills", query="Does one two y")), "done"], **settings)
    agent.say("go", context=context)

    (answer,) = agent.tool_messages("search_skills")
    assert "- y: " in answer.text
    assert "x-" not in answer.text
