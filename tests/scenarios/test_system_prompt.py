"""What the operator adds to the agent's instructions."""

import platform
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from skills_agent.graph import Settings, SettingsError, build_graph
from skills_agent.graph.system_prompt import system_prompt_of
from skills_agent.state.schema import AgentState
from tests.agents import trust_file_of_workspace
from tests.openai_server import KEY, Completion, OpenAIServer


@pytest.fixture(autouse=True)
def _done(server: OpenAIServer) -> None:
    server.respond = lambda _: Completion("done")


def system_message(server: OpenAIServer, settings: Settings, **brought: Any) -> str:
    """Return the one system message that the provider is sent."""
    model = ChatOpenAI(model="m", base_url=server.base_url, api_key=SecretStr(KEY))
    agent: Any = build_graph(settings, model=model, **brought).compile()
    agent.invoke({"messages": [SystemMessage("CALLERS"), ("user", "go")]})
    messages = server.requests[-1].body["messages"]
    assert [each["role"] for each in messages].count("system") == 1
    text: str = messages[0]["content"]
    return text


def test_it_stands_between_the_agents_own_instructions_and_the_callers(
    server: OpenAIServer, workspace: Path
) -> None:
    settings = Settings(
        workspace=workspace, home=workspace, bundled_skills=False, system_prompt="Speak French."
    )
    text = system_message(server, settings)
    assert text.index("You are an assistant") < text.index("Speak French.") < text.index("CALLERS")


def test_a_model_is_told_what_day_it_is_and_where_it_works(workspace: Path) -> None:
    settings = Settings(workspace=workspace, home=workspace, system_prompt="Speak French.")
    text = system_prompt_of(settings, None, today=lambda: date(2026, 11, 24))(AgentState())
    assert text.startswith("Speak French.")  # What changes from day to day comes last.
    assert "Today is 2026-11-24." in text
    assert str(workspace.resolve()) in text
    assert platform.system() in text


def test_a_host_replaces_the_setting_by_a_text_or_a_function_of_the_state(
    server: OpenAIServer, workspace: Path
) -> None:
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False, system_prompt="FIRST")
    said = system_message(server, settings, system_prompt="SECOND")
    assert ("FIRST" in said, "SECOND" in said) == (False, True)
    counted = system_message(
        server, settings, system_prompt=lambda state: f"{len(state['messages'])} messages"
    )
    assert "2 messages" in counted
    assert "THIRD" in system_message(server, settings, system_prompt=SystemMessage("THIRD"))
    assert "FOURTH" in system_message(server, settings, system_prompt=lambda _: SystemMessage("FOURTH"))


async def _later(_: object) -> str:
    return "later"


@pytest.mark.parametrize(
    ("wrong", "told"), [(7, "not int"), (["a"], "not list"), (_later, "not a coroutine function")]
)
def test_what_makes_no_text_is_refused_when_the_graph_is_built(
    workspace: Path, wrong: Any, told: str
) -> None:
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    with pytest.raises(SettingsError, match=f"a text, a SystemMessage, or a function of the state.*{told}"):
        build_graph(settings, system_prompt=wrong)


def test_a_function_that_returns_no_text_is_told(workspace: Path) -> None:
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False)
    wrong: Any = lambda _: None  # noqa: E731
    agent: Any = build_graph(settings, system_prompt=wrong).compile()
    with pytest.raises(SettingsError, match="the function returned NoneType"):
        agent.invoke({"messages": [("user", "go")]})


def test_agents_md_is_read_where_the_operator_says_so(server: OpenAIServer, workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("Use tabs.\n")
    chosen: dict[str, Any] = {"workspace": workspace, "home": workspace, "bundled_skills": False}
    assert "Use tabs." not in system_message(server, Settings(**chosen))
    assert "Use tabs." in system_message(server, Settings(**chosen, agents_md="on"))


def test_agents_md_of_an_untrusted_workspace_is_not_read_by_its_own_word(
    server: OpenAIServer, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "AGENTS.md").write_text("Use tabs.\n")
    config = workspace / ".agent" / "config.toml"
    config.parent.mkdir()
    config.write_text('agents_md = "on"\nsystem_prompt = "Obey."\n')
    home = tmp_path / "home"
    untrusted = system_message(server, Settings.load(workspace, home=home, bundled_skills=False))
    assert ("Use tabs." in untrusted, "Obey." in untrusted) == (False, False)
    trust_file_of_workspace(workspace, home)
    trusted = system_message(server, Settings.load(workspace, home=home, bundled_skills=False))
    assert ("Use tabs." in trusted, "Obey." in trusted) == (True, True)


def test_a_link_is_not_read_as_agents_md(server: OpenAIServer, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("TOP SECRET")
    (workspace / "AGENTS.md").symlink_to(tmp_path / "secret")
    settings = Settings(workspace=workspace, home=workspace, bundled_skills=False, agents_md="on")
    assert "TOP SECRET" not in system_message(server, settings)
