"""Skills that name a model or an effort: it is asked where the operator allows it, and no turn is lost."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph import Context, Settings
from skills_agent.graph.layers import read_workspace_file
from skills_agent.graph.models.provider import make_models
from skills_agent.nodes.model_errors import ModelCallError
from skills_agent.state.records import LoadedSkill
from tests.agents import Agent, write_skill
from tests.graph.cli.command_line import CommandLine
from tests.kit import MakeAgent
from tests.openai_server import Answer, Call, Completion, OpenAIServer, error

FIRST, SECOND, THIRD = "openai:first", "openai:second", "openai:third"


MakeAsked = Callable[..., Agent]


@pytest.fixture
def asked(make_agent: MakeAgent, server: OpenAIServer) -> MakeAsked:
    """Return what makes an agent whose models are on a server, which answers with the name of the model."""
    server.respond = lambda body: Completion(f"I am {body['model']}.")
    return lambda **more: make_agent(None, **{"model": FIRST, "allowed_models": (SECOND, THIRD), **more})


def say(agent: Agent, text: str, **context: Any) -> str:
    return str(agent.say(text, context=Context(**context))["answer"])


def withdrawn(agent: Agent, text: str) -> list[str]:
    """Run a turn, and return why replies of it were given up."""
    parts = agent.graph.stream({"messages": [("user", text)]}, agent.config, stream_mode="custom")
    return [each["reason"] for each in parts if each["type"] == "skills_agent.reply_withdrawn"]


def receipts(agent: Agent) -> list[str]:
    return [each.text for each in agent.tool_messages("load_skill")]


def skill(folder: Path, name: str, fields: str) -> None:
    write_skill(folder, name, f"Counts {name}.\n{fields}")


def test_the_model_of_a_skill_is_asked_until_it_is_unloaded(asked: MakeAsked, skills_dir: Path) -> None:
    skill(skills_dir, "alpha", "model: openai/second")
    agent = asked()
    assert [say(agent, text) for text in ("hello", "/alpha go")] == ["I am first.", "I am second."]
    assert "model" not in receipts(agent)[0]
    agent = asked(checkpointer=agent.checkpointer)  # as another process does
    assert say(agent, "go on") == "I am second."
    assert say(agent, "/unload alpha and go on") == "I am first."
    usage = agent.values["usage"]
    assert {name: each["model_calls"] for name, each in usage["by_model"].items()} == {FIRST: 2, SECOND: 2}
    assert sum(each["input_tokens"] for each in usage["by_model"].values()) == usage["thread"]["input_tokens"]


def test_the_skill_that_was_loaded_last_decides_but_for_callers(asked: MakeAsked, skills_dir: Path) -> None:
    for name, model in (("alpha", SECOND), ("beta", "third"), ("gamma", "inherit"), ("delta", SECOND)):
        skill(skills_dir, name, f"model: {model}")
    agent = asked()
    assert [say(agent, f"/{name} go") for name in ("beta", "alpha", "gamma")][1:] == ["I am second."] * 2
    beta, alpha, gamma = receipts(agent)
    said = "`model: openai:second` counts, as it was loaded last, not `openai:third` of beta."
    assert (said in alpha, "model" in beta, "model" in gamma) == (True, False, False)
    assert say(agent, "/unload alpha and go on") == "I am third."
    assert say(agent, "/delta go", model=FIRST) == "I am first."
    assert "is ignored: whoever calls the agent chose its model." in receipts(agent)[-1]
    assert say(agent, "go on") == "I am second."


def test_a_skill_that_runs_alone_has_its_model(
    asked: MakeAsked, server: OpenAIServer, skills_dir: Path
) -> None:
    skill(skills_dir, "alpha", "model: second\neffort: low\ncontext: fork")
    agent = asked()
    server.answers.append(Completion(calls=[Call("load_skill", {"name": "alpha"}, "c1")]))
    assert say(agent, "go") == "I am first."
    sent = [(each.body["model"], each.body.get("reasoning_effort")) for each in server.requests]
    assert sent == [("first", None), ("second", "low"), ("first", None)]
    assert [*agent.values["usage"]["by_model"]] == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ("openai:fourth", "is ignored: it is not allowed. The operator can add"),
        ("sonnet", "is ignored: no model that is allowed is called so. The operator can add"),
        ("sec", "is ignored: no model that is allowed is called so."),
        ("openai", "is ignored: it may mean openai:first or openai:second or openai:third."),
        ("be <quick>", "&lt;quick&gt;` is ignored: no model"),
    ],
)
def test_a_model_that_is_not_allowed_is_said_once_and_ignored(
    asked: MakeAsked, server: OpenAIServer, skills_dir: Path, wish: str, why: str
) -> None:
    skill(skills_dir, "alpha", f"model: {wish}")
    agent = asked()
    assert withdrawn(agent, "/alpha go") == []
    assert say(agent, "go on") == "I am first."
    (receipt,) = receipts(agent)
    assert why in receipt
    (loaded,) = [each for each in server.requests[0].body["messages"] if each["role"] == "tool"]
    assert why in loaded["content"]


def test_a_model_that_a_person_chose_on_the_command_line_stays(cli: CommandLine) -> None:
    first, second = (cli.script(*[name] * 4, name=name) for name in ("first", "second"))
    cli.write_skill(f"---\nname: alpha\ndescription: Use it for apples.\nmodel: {second}\n---\nGo.", "alpha")
    cli.write_users_settings(f'model = "{first}"\nallowed_models = ["{second}"]\n')
    folder = ("--skills-dir", str(cli.skills))
    assert cli.run("ask", "/alpha go", "--thread", "a", *folder).out.endswith("\n\nsecond\n")
    assert [*cli.run("threads", "show", "a", "--json").value["usage"]["by_model"]] == [second]
    told = cli.run("ask", "/alpha go", "--thread", "b", "--model", first, *folder).out
    assert "whoever calls the agent chose its model" in told
    assert told.endswith("\n\nfirst\n")
    assert cli.run("ask", "go on", "--thread", "b").out == "first\n"


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "x")


def loaded(model: str | None = None, **more: Any) -> dict[str, LoadedSkill]:
    skill: Any = {"name": "alpha", "order": 1, "unloaded": False, "model": model, **more}
    return {"alpha": skill}


@pytest.mark.parametrize(
    ("own", "allowed", "wish", "asked"),
    [
        ("openai:first", None, "openai:second", "openai:second"),
        ("offline", None, "openai:second", "offline"),
        pytest.param("anthropic:first", None, "openai:second", "anthropic:first", marks=pytest.mark.slow),
        ("offline", ["openai:second"], "openai:second", "openai:second"),
        ("openai:first", ["openai:gpt-5", "openai:gpt-5-mini"], "GPT-5", "openai:gpt-5"),
        ("openai:first", ["openai:gpt-5-mini"], "gpt-5", "openai:gpt-5-mini"),
        ("openai:first", ["openai:gpt-50"], "gpt-5", "openai:first"),
        ("openai:first", ["*"], "gpt-5", "openai:first"),
    ],
)
@pytest.mark.usefixtures("server", "keys")
def test_a_skill_leads_to_another_provider_only_where_the_operator_wrote_that(
    workspace: Path, own: str, allowed: Sequence[str] | None, wish: str, asked: str
) -> None:
    given = {} if allowed is None else {"allowed_models": tuple(allowed)}
    settings = Settings.load_own(workspace, home=workspace, model=own, **given)
    chosen = make_models(settings, None).for_skills(Context(), loaded(wish))
    assert (chosen.name, bool(chosen.said)) == (asked, asked == own)


@pytest.mark.usefixtures("server")
def test_an_untrusted_workspace_does_not_lead_a_skill_to_another_provider(workspace: Path) -> None:
    (workspace / ".agent").mkdir()
    (workspace / ".agent" / "config.toml").write_text('allowed_models = ["openai:second"]\n')
    settings = Settings.load_own(workspace, home=workspace, model="offline")
    file = read_workspace_file(workspace)
    assert file
    narrowed = settings.tightened_by(file, None)
    assert narrowed.allowed_models == (SECOND,)
    assert make_models(narrowed, None).for_skills(Context(), loaded(SECOND)).name == "offline"


@pytest.mark.parametrize(
    ("wish", "broken", "lost"),
    [(SECOND, error(404, "none"), 0), (SECOND, Completion(""), 22), ("mistralai:x", None, 0)],
)
def test_a_model_that_gives_no_answer_is_told_once_a_turn_counted_and_the_operators_answers(
    asked: MakeAsked, server: OpenAIServer, skills_dir: Path, wish: str, broken: Answer | None, lost: int
) -> None:
    skill(skills_dir, "alpha", f"model: {wish}")
    agent = asked(allowed_models=(SECOND, "mistralai:*"))
    replies = iter([Completion(calls=[Call("list_dir", {"path": "."}, "c1")]), Completion("Done.")] * 2)
    server.respond = lambda body: (broken if body["model"] == "second" else None) or next(replies)
    for text in ("/alpha go", "go on"):
        server.requests.clear()
        reason = withdrawn(agent, text)[-1]
        assert agent.values["answer"] == "Done."
        assert wish in reason
        assert reason.endswith("is asked, as the operator set it.")
        sent = [each.body["model"] for each in server.requests]
        assert sent == [*["second"] * (1 + lost // 22 if broken else 0), "first", "first"]
    counted = {name: each["input_tokens"] for name, each in agent.values["usage"]["by_model"].items()}
    assert counted == {FIRST: 44, **({SECOND: 2 * lost} if lost else {})}


def test_a_skills_model_sums_up_older_turns(asked: MakeAsked, workspace: Path, skills_dir: Path) -> None:
    skill(skills_dir, "alpha", "model: second")
    agent = asked(context_window=6_000)
    for text in ("/alpha go", *["word " * 2_000] * 4):
        agent.say(text)
    assert agent.values["summary"]["by"] == SECOND
    models = make_models(Settings(workspace=workspace, home=workspace, model="openai:gpt-5-mini"), None)
    windows = [models.window(Context(), skills) for skills in (loaded("openai:gpt-4o"), None)]
    assert windows == [128_000, models.choose(Context()).window]
    assert windows[0] != windows[1]


def test_the_effort_of_a_skill_is_sent(asked: MakeAsked, server: OpenAIServer, skills_dir: Path) -> None:
    for name, effort in (("alpha", "High"), ("beta", "low"), ("gamma", "hard")):
        skill(skills_dir, name, f"effort: {effort}")
    agent = asked()
    for text in (
        "hello",
        "/alpha go",
        "/beta go",
        "/gamma go",
        "/unload beta and go on",
        "/unload alpha too",
    ):
        agent.say(text)
    efforts = [each.body.get("reasoning_effort") for each in server.requests]
    assert efforts == [None, "high", "low", "low", "high", None]
    assert "`effort: low` counts, as it was loaded last, not `high` of alpha." in receipts(agent)[1]
    answers: Any = server.respond
    server.respond = lambda body: error(400, "unsupported") if "reasoning_effort" in body else answers(body)
    assert len(withdrawn(agent, "/alpha again")) == 1
    assert agent.values["answer"] == "I am first."
    server.respond = lambda body: error(500, "down", ("retry-after", "0"))  # no matter of the effort
    with pytest.raises(ModelCallError):
        agent.say("/beta again")
    assert [each.body["reasoning_effort"] for each in server.requests[-2:]] == ["low"] * 2


@pytest.mark.parametrize(
    ("model", "effort", "parameters", "why"),
    [
        ("openai:any", "max", {}, ""),
        ("openai:gpt-4o", "low", {}, "the model does not take it"),
        ("openai:gpt-5-mini", "max", {}, "the model does not take it"),
        ("openai:any", "max", {"reasoning_effort": "low"}, "the operator set low"),
        ("offline", "low", {}, "the model does not take it"),
        pytest.param("anthropic:claude-opus-5-5", "max", {}, "", marks=pytest.mark.slow),
        pytest.param("google_genai:gemini-9", "high", {}, "", marks=pytest.mark.slow),
        pytest.param(
            "google_genai:gemini-9", "max", {}, "the model does not take it", marks=pytest.mark.slow
        ),
    ],
)
@pytest.mark.usefixtures("server", "keys")
def test_an_effort_is_given_to_a_class_that_declares_it_and_a_model_that_has_it(
    workspace: Path, model: str, effort: str, parameters: dict[str, Any], why: str
) -> None:
    settings = Settings(workspace=workspace, home=workspace, model=model, model_parameters=parameters)
    chosen = make_models(settings, None).for_skills(Context(), loaded(effort=effort))
    assert chosen.said == ([("alpha", f"`effort: {effort}` is ignored: {why}.")] if why else [])
    if not why:
        assert chosen.chat.reasoning_effort == effort  # type: ignore[attr-defined]
        usual = make_models(settings, None).choose(Context())
        assert usual.chat.reasoning_effort is None  # type: ignore[attr-defined]
