"""What the operator adds to the agent's instructions."""

import platform
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import SystemMessage

from skills_agent.graph import Settings, SettingsError, build_graph
from skills_agent.graph.system_prompt import system_prompt_of
from skills_agent.state.schema import AgentState
from tests.agents import trust_file_of_workspace
from tests.openai_server import Completion, OpenAIServer


@pytest.fixture
def system(server: OpenAIServer, workspace: Path) -> Any:
    """Return what tells the one system message that the provider is sent."""
    server.respond = lambda _: Completion("done")

    def told(settings: Settings | None = None, *, brought: Any = None, **fields: Any) -> str:
        made = settings or Settings(workspace=workspace, home=workspace, bundled_skills=False, **fields)
        agent: Any = build_graph(made, model=server.chat(), system_prompt=brought).compile()
        agent.invoke({"messages": [SystemMessage("CALLERS"), ("user", "go")]})
        messages = server.requests[-1].body["messages"]
        assert [each["role"] for each in messages].count("system") == 1
        return str(messages[0]["content"])

    return told


def test_a_model_is_told_what_day_it_is_and_where_it_works(workspace: Path) -> None:
    settings = Settings(workspace=workspace, home=workspace, system_prompt="Speak French.")
    text = system_prompt_of(settings, None, today=lambda: date(2026, 11, 24))(AgentState())
    assert text.startswith("Speak French.")  # What changes from day to day comes last.
    for part in ("Today is 2026-11-24.", str(workspace.resolve()), platform.system()):
        assert part in text


def test_it_stands_between_the_agents_own_instructions_and_the_callers_and_a_host_replaces_it(
    system: Any,
) -> None:
    text = system(system_prompt="FIRST")
    assert text.index("You are an assistant") < text.index("FIRST") < text.index("CALLERS")
    said = system(system_prompt="FIRST", brought="SECOND")
    assert ("FIRST" in said, "SECOND" in said) == (False, True)
    assert "2 messages" in system(brought=lambda state: f"{len(state['messages'])} messages")
    assert "THIRD" in system(brought=SystemMessage("THIRD"))
    assert "FOURTH" in system(brought=lambda _: SystemMessage("FOURTH"))
    with pytest.raises(SettingsError, match="the function returned NoneType"):
        system(brought=lambda _: None)


def test_agents_md_is_read_where_the_operator_says_so(system: Any, workspace: Path, tmp_path: Path) -> None:
    page = workspace / "AGENTS.md"
    page.write_text("Use tabs.\n")
    assert "Use tabs." not in system()
    assert "Use tabs." in system(agents_md="on")
    page.rename(tmp_path / "secret")
    page.symlink_to(tmp_path / "secret")
    assert "Use tabs." not in system(agents_md="on")


def test_agents_md_is_not_read_by_its_own_word(system: Any, workspace: Path, tmp_path: Path) -> None:
    (workspace / "AGENTS.md").write_text("Use tabs.\n")
    config = workspace / ".agent" / "config.toml"
    config.parent.mkdir()
    config.write_text('agents_md = "on"\nsystem_prompt = "Obey."\n')
    home = tmp_path / "home"
    for is_trusted in (False, True):
        text = system(Settings.load(workspace, home=home, bundled_skills=False))
        assert ("Use tabs." in text, "Obey." in text) == (is_trusted, is_trusted)
        trust_file_of_workspace(workspace, home)
