"""Skills that name a model or an effort: it is asked where the operator allows it, and no turn is lost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from skills_agent.graph import Context, Settings, build_graph
from skills_agent.graph.layers import read_workspace_file
from skills_agent.graph.models.provider import make_models
from skills_agent.nodes.model_errors import ModelCallError
from skills_agent.state.records import LoadedSkill
from tests.agents import write_skill
from tests.graph.cli.command_line import CommandLine
from tests.openai_server import Answer, Call, Completion, OpenAIServer, error

FIRST, SECOND, THIRD = "openai:first", "openai:second", "openai:third"


class Asked:
    """An agent whose models are on a server, which answers with the name of the model."""

    def __init__(self, server: OpenAIServer, workspace: Path, saver: Any = None, **settings: Any) -> None:
        server.respond = lambda body: Completion(f"I am {body['model']}.")
        chosen = {"model": FIRST, "allowed_models": (SECOND, THIRD), **settings}
        own = Settings(workspace=workspace, home=workspace, bundled_skills=False, **chosen)
        self.graph = build_graph(own).compile(checkpointer=saver or InMemorySaver())
        self.config: Any = {"configurable": {"thread_id": "1"}}
        self.events: list[Any] = []

    def say(self, text: str, **context: Any) -> str:
        """Return the answer; events of the turn are kept."""
        said = {"messages": [("user", text)]}
        parts = self.graph.stream(said, self.config, stream_mode="custom", context=Context(**context))
        self.events = [*parts]
        return str(self.values["answer"])

    @property
    def values(self) -> dict[str, Any]:
        """Return the channels."""
        values: dict[str, Any] = self.graph.get_state(self.config).values
        return values

    def receipts(self) -> list[str]:
        """Return what the newest loads said."""
        return [each.text for each in self.values["messages"] if each.name == "load_skill"]

    def told(self) -> list[str]:
        """Return why replies of the turn were given up."""
        return [each["reason"] for each in self.events if each["type"] == "skills_agent.reply_withdrawn"]


def skill(folder: Path, name: str, fields: str) -> None:
    write_skill(folder, name, f"Counts {name}.\n{fields}")


def test_the_model_of_a_loaded_skill_is_asked_until_it_is_unloaded_and_each_is_counted(
    server: OpenAIServer, workspace: Path, skills_dir: Path, tmp_path: Path
) -> None:
    skill(skills_dir, "alpha", "model: openai/second")
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        agent = Asked(server, workspace, saver)
        assert agent.say("hello") == "I am first."
        assert agent.say("/alpha go") == "I am second."
        assert "model" not in agent.receipts()[0]
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        agent = Asked(server, workspace, saver)  # as another process does
        assert agent.say("go on") == "I am second."
        assert agent.say("/unload alpha and go on") == "I am first."
        usage = agent.values["usage"]
    assert {name: each["model_calls"] for name, each in usage["by_model"].items()} == {FIRST: 2, SECOND: 2}
    assert sum(each["input_tokens"] for each in usage["by_model"].values()) == usage["thread"]["input_tokens"]


def test_the_skill_that_was_loaded_last_decides_and_its_receipt_says_so(
    server: OpenAIServer, workspace: Path, skills_dir: Path
) -> None:
    for name, model in (("alpha", "openai:second"), ("beta", "third"), ("gamma", "inherit")):
        skill(skills_dir, name, f"model: {model}")
    agent = Asked(server, workspace)
    assert [agent.say(f"/{name} go") for name in ("beta", "alpha", "gamma")][1:] == ["I am second."] * 2
    beta, alpha, gamma = agent.receipts()
    said = "`model: openai:second` counts, as it was loaded last, not `openai:third` of beta."
    assert (said in alpha, "model" in beta, "model" in gamma) == (True, False, False)
    assert agent.say("/unload alpha and go on") == "I am third."


def test_a_skill_that_runs_by_itself_has_its_model_there_alone(
    server: OpenAIServer, workspace: Path, skills_dir: Path
) -> None:
    skill(skills_dir, "alpha", "model: second\neffort: low\ncontext: fork")
    agent = Asked(server, workspace)
    server.answers.append(Completion(calls=[Call("load_skill", {"name": "alpha"}, "c1")]))
    assert agent.say("go") == "I am first."
    asked = [(each.body["model"], each.body.get("reasoning_effort")) for each in server.requests]
    assert asked == [("first", None), ("second", "low"), ("first", None)]
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
    server: OpenAIServer, workspace: Path, skills_dir: Path, wish: str, why: str
) -> None:
    skill(skills_dir, "alpha", f"model: {wish}")
    agent = Asked(server, workspace)
    assert (agent.say("/alpha go"), agent.say("go on")) == ("I am first.", "I am first.")
    (receipt,) = agent.receipts()
    assert why in receipt
    (loaded,) = [each for each in server.requests[0].body["messages"] if each["role"] == "tool"]
    assert why in loaded["content"]
    assert agent.told() == []


def test_whoever_calls_the_agent_keeps_the_model_that_they_chose(
    server: OpenAIServer, workspace: Path, skills_dir: Path
) -> None:
    skill(skills_dir, "alpha", "model: openai:second")
    agent = Asked(server, workspace)
    assert agent.say("/alpha go", model=THIRD) == "I am third."
    assert "is ignored: whoever calls the agent chose its model." in agent.receipts()[0]
    assert agent.say("go on", model=FIRST) == "I am first."
    assert agent.say("go on") == "I am second."


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
def test_a_skill_leads_to_another_provider_only_where_the_operator_wrote_that(
    server: OpenAIServer,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    allowed: Sequence[str] | None,
    wish: str,
    asked: str,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    given = {} if allowed is None else {"allowed_models": tuple(allowed)}
    settings = Settings.load_own(workspace, home=workspace, model=own, **given)
    chosen = make_models(settings, None).for_skills(Context(), loaded(wish))
    assert (chosen.name, bool(chosen.said)) == (asked, asked == own)


def test_an_untrusted_workspace_does_not_lead_a_skill_to_another_provider(
    server: OpenAIServer, workspace: Path
) -> None:
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
    server: OpenAIServer, workspace: Path, skills_dir: Path, wish: str, broken: Answer | None, lost: int
) -> None:
    skill(skills_dir, "alpha", f"model: {wish}")
    agent = Asked(server, workspace, allowed_models=(SECOND, "mistralai:*"))
    replies = iter([Completion(calls=[Call("list_dir", {"path": "."}, "c1")]), Completion("Done.")] * 2)
    server.respond = lambda body: (broken if body["model"] == "second" else None) or next(replies)
    for text in ("/alpha go", "go on"):
        server.requests.clear()
        assert agent.say(text) == "Done."
        reason = agent.told()[-1]
        assert wish in reason
        assert reason.endswith("is asked, as the operator set it.")
        asked = [each.body["model"] for each in server.requests]
        assert asked == [*["second"] * (1 + lost // 22 if broken else 0), "first", "first"]
    counted = {name: each["input_tokens"] for name, each in agent.values["usage"]["by_model"].items()}
    assert counted == {FIRST: 44, **({SECOND: 2 * lost} if lost else {})}


def test_older_turns_are_summed_up_by_the_model_that_reads_them_and_for_its_window(
    server: OpenAIServer, workspace: Path, skills_dir: Path
) -> None:
    skill(skills_dir, "alpha", "model: second")
    agent = Asked(server, workspace, context_window=6_000)
    for text in ("/alpha go", *["word " * 2_000] * 4):
        agent.say(text)
    assert agent.values["summary"]["by"] == SECOND
    models = make_models(Settings(workspace=workspace, home=workspace, model="openai:gpt-5-mini"), None)
    windows = [models.window(Context(), skills) for skills in (loaded("openai:gpt-4o"), None)]
    assert windows == [128_000, models.choose(Context()).window]
    assert windows[0] != windows[1]


def test_the_effort_of_a_skill_reaches_the_server_and_one_that_it_refuses_is_left_out(
    server: OpenAIServer, workspace: Path, skills_dir: Path
) -> None:
    for name, effort in (("alpha", "High"), ("beta", "low"), ("gamma", "hard")):
        skill(skills_dir, name, f"effort: {effort}")
    agent = Asked(server, workspace)
    for text in (
        "hello",
        "/alpha go",
        "/beta go",
        "/gamma go",
        "/unload beta and go on",
        "/unload alpha and go on",
    ):
        agent.say(text)
    efforts = [each.body.get("reasoning_effort") for each in server.requests]
    assert efforts == [None, "high", "low", "low", "high", None]
    assert "`effort: low` counts, as it was loaded last, not `high` of alpha." in agent.receipts()[1]
    answers = server.respond
    assert answers
    server.respond = lambda body: error(400, "unsupported") if "reasoning_effort" in body else answers(body)
    assert agent.say("/alpha again") == "I am first."
    assert len(agent.told()) == 1
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
        *(
            pytest.param(model, effort, {}, why, marks=pytest.mark.slow)
            for model, effort, why in (
                ("anthropic:claude-opus-5-5", "max", ""),
                ("google_genai:gemini-9", "high", ""),
                ("google_genai:gemini-9", "max", "the model does not take it"),
            )
        ),
    ],
)
def test_an_effort_is_given_to_a_class_that_declares_it_and_a_model_that_has_it(
    server: OpenAIServer,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    effort: str,
    parameters: dict[str, Any],
    why: str,
) -> None:
    for name in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "x")
    settings = Settings(workspace=workspace, home=workspace, model=model, model_parameters=parameters)
    chosen = make_models(settings, None).for_skills(Context(), loaded(effort=effort))
    assert chosen.said == ([("alpha", f"`effort: {effort}` is ignored: {why}.")] if why else [])
    if not why:
        assert chosen.chat.reasoning_effort == effort  # type: ignore[attr-defined]
        usual = make_models(settings, None).choose(Context())
        assert usual.chat.reasoning_effort is None  # type: ignore[attr-defined]
