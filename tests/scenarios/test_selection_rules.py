"""Which skills are loaded, in what order, and with what of the user's words in them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage

from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.state.context import Context, ContextError
from tests.agents import Agent, Recorder, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import needs_part, needs_shell


def prompts_of(make_agent: MakeAgent, replies: Sequence[object], **settings: Any) -> tuple[Agent, Recorder]:
    """Return an agent, and what its model reads."""
    recorder = Recorder(replies)
    return make_agent(recorder.entries, **settings), recorder


BY_HAND = "disable-model-invocation: true"


@pytest.mark.parametrize(
    ("skills", "asked", "loaded", "said", "never"),
    [
        (
            {"report": "requires: [figures, style]", "figures": "requires: style", "style": ""},
            *(["report"], ["style", "figures", "report"], ["Loaded figures"], ""),
        ),
        (
            {"report": "requires: style", "letter": "requires: style", "style": ""},
            *(["report", "letter"], ["style", "report", "letter"], [], ""),
        ),
        (
            {"a": "requires: [b, nowhere]", "b": "requires: a"},
            *(["a"], ["b", "a"], ["cycle (a -> b -> a)", "requires nowhere"], ""),
        ),
        (
            {"chart": "version: 1.0", "table": "version: 1.3", "report": "requires: chart>=1.2, table>=1.2"},
            *(["report"], ["table", "report"], ["report requires chart>=1.2"], ""),
        ),
        # What only a person loads is neither loaded nor told by its name, or its version.
        (
            {"secret-deploy": BY_HAND, "helper": "requires: secret-deploy"},
            *(["helper", "nix"], ["helper"], ["requires a skill that only the user can load"], "secret"),
        ),
        (
            {"secret": f"{BY_HAND}\nversion: 3.1", "helper": "requires: secret>=4"},
            *(["helper"], ["helper"], [], "3.1"),
        ),
    ],
)
def test_what_a_skill_requires_comes_before_it_once(
    make_agent: MakeAgent,
    skills_dir: Path,
    skills: dict[str, str],
    asked: list[str],
    loaded: list[str],
    said: list[str],
    never: str,
) -> None:
    for name, fields in skills.items():
        write_skill(skills_dir, name, f"Does it.\n{fields}".rstrip())
    loads = calls(*(call("load_skill", name=name) for name in asked))
    agent, read = prompts_of(make_agent, [loads, "done"])
    agent.say("go")
    ledger = agent.values["skills_loaded"]
    assert sorted(ledger, key=lambda name: ledger[name]["order"]) == loaded
    receipts = "\n".join(message.text for message in agent.tool_messages("load_skill"))
    for text in (*said, *(f"Loaded {name}" for name in loaded)):
        assert receipts.count(text) == 1
    assert not never or never not in receipts + read.texts[1]


def test_a_long_chain_of_requirements_ends_at_the_limit(make_agent: MakeAgent, skills_dir: Path) -> None:
    for number in range(1200):
        write_skill(skills_dir, f"s{number}", f"Nr.\nrequires: s{number + 1}", "x\n")
    agent = make_agent([calls(call("load_skill", name="s0")), "done"])
    agent.say("go")
    (refused,) = agent.tool_messages("load_skill")
    assert "limit of 10" in refused.text


def test_each_slash_command_fills_the_placeholders_anew_in_its_place(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "deploy", "Deploys.", "Deploy to $ARGUMENTS.\n")
    agent, read = prompts_of(make_agent, ["done"] * 4)
    agent.say("/deploy prod")
    agent.say("/deploy staging")
    first, second = read.texts[1].index("Deploy to prod."), read.texts[1].index("Deploy to staging.")
    assert first < read.texts[1].index("/deploy staging") < second
    agent.say("/deploy staging")  # The same again: it is there.
    assert read.texts[2].count("Deploy to staging.") == 1
    agent.say("/deploy prod")
    assert read.texts[3].rindex("Deploy to prod.") > read.texts[3].index("Deploy to staging.")
    assert agent.values["skills_loaded"]["deploy"]["arguments"] == "prod"


@pytest.mark.parametrize("names", [{"skills": ["fix"]}, {}])
def test_without_arguments_no_placeholder_of_all_of_them_is_left(
    make_agent: MakeAgent, skills_dir: Path, names: dict[str, Any]
) -> None:
    write_skill(skills_dir, "fix", "Fixes.", "Fix this: [$ARGUMENTS]. Word: $0.\n")
    agent, read = prompts_of(make_agent, ["done"])
    agent.say("do it" if names else "do it with $fix", **names)
    assert "Fix this: []. Word: $0." in read.texts[0]


def test_the_model_gives_arguments_and_another_activation_of_a_loaded_skill(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "fix", "Fixes.", "Fix $ARGUMENTS.\n")
    loads = [calls(call("load_skill", name="fix", arguments=each)) for each in ("1", "2", "2")]
    agent, read = prompts_of(make_agent, [*loads, "done"])
    agent.say("go")
    assert "Fix 1." in read.texts[1]
    assert "Fix 1." in read.texts[2]
    assert "Fix 2." in read.texts[2]
    *_, refused = agent.tool_messages("load_skill")
    assert refused.status == "error"
    assert "is loaded, and its instructions are above" in refused.text


def test_two_slash_commands_at_the_beginning_load_both_with_the_text(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    for name in ("alpha", "beta"):
        write_skill(skills_dir, name, "Does.", f"{name} does $ARGUMENTS.\n")
    agent, read = prompts_of(make_agent, ["done"])
    agent.say("/alpha /beta the /gamma work")
    assert agent.values["loaded"] == ["alpha", "beta"]
    assert "alpha does the /gamma work." in read.texts[0]
    assert "beta does the /gamma work." in read.texts[0]


def test_a_summary_shows_the_newest_activation(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "deploy", "Deploys.", "Deploy to $ARGUMENTS.\n")
    agent, read = prompts_of(make_agent, ["done"] * 3)
    agent.say("/deploy prod")
    agent.say("/deploy staging")
    ids = [each.id for each in agent.values["messages"]]
    agent.graph.update_state(agent.config, {"messages": [RemoveMessage(id=each) for each in ids if each]})
    agent.say("and now?")
    assert "still active" in read.texts[2]
    assert "Deploy to staging." in read.texts[2]


def test_the_users_skills_are_not_bound_by_the_limit_of_one_step(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        write_skill(skills_dir, name, "Does.", "x\n")
    agent = make_agent(["done"])
    agent.say("go", skills=names)
    assert agent.values["loaded"] == names


@pytest.mark.parametrize("ask", [{"text": "/nosuch do it"}, {"text": "go", "skills": ["nosuch"]}])
def test_the_model_reads_no_name_of_a_manual_skill_in_what_is_told_of_an_unknown_one(
    make_agent: MakeAgent, skills_dir: Path, ask: dict[str, Any]
) -> None:
    write_skill(skills_dir, "alpha", "Does.", "x\n")
    write_skill(skills_dir, "nosuch-secret", "Deploys.\ndisable-model-invocation: true", "D\n")
    agent, read = prompts_of(make_agent, ["done"])
    agent.say(**ask)
    assert "There is no skill named 'nosuch'. Known skills: alpha." in read.texts[0]
    assert "nosuch-secret" not in read.texts[0]


@pytest.mark.parametrize(
    ("is_trusted", "loaded"), [(False, ["mid", "proj"]), (True, ["mid", "mine", "proj"])]
)
def test_a_manual_skill_follows_the_users_request_only_where_a_trusted_skill_requires_it(
    make_agent: MakeAgent, skills_dir: Path, tmp_path: Path, *, is_trusted: bool, loaded: list[str]
) -> None:
    own = tmp_path / "home" / ".agent" / "skills"
    write_skill(own, "mine", "Deploys.\ndisable-model-invocation: true", "D\n")
    write_skill(own, "proj", "Helps.\nrequires: mid", "P\n")
    write_skill(own if is_trusted else skills_dir, "mid", "Helps, too.\nrequires: mine", "M\n")
    agent = make_agent(["done"])
    agent.say("/proj go")
    assert agent.values["loaded"] == loaded
    (receipt,) = agent.tool_messages("load_skill")
    assert ("mid requires a skill that only the user can load" in receipt.text) == (not is_trusted)
    reasons = {name: each["reason"] for name, each in agent.values["skills_loaded"].items()}
    assert reasons == {name: "" if name == "proj" else "proj requires it" for name in loaded}


def test_a_skill_that_was_skipped_is_not_said_to_be_unknown(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "fine", "Does.", "x\n")
    (skills_dir / "too-big").mkdir()
    (skills_dir / "too-big" / "SKILL.md").write_bytes(
        b"---\nname: too-big\ndescription: x\n---\n" + b"x" * 10_500_000
    )
    agent = make_agent([calls(call("load_skill", name="too-big")), "done"])
    agent.say("go")
    (refused,) = agent.tool_messages("load_skill")
    assert "Skill 'too-big' is there, and cannot be used" in refused.text
    assert "10,000,000" in refused.text


def test_skills_mentioned_with_a_dollar_are_loaded_in_the_order_named(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "beta", "B.", "B\n")
    write_skill(skills_dir, "alpha", "A.", "A\n")
    agent = make_agent(["done"])
    agent.say("Use $beta, then $alpha; not $gamma, $HOME or cost$alpha")
    ledger = agent.values["skills_loaded"]
    assert sorted(ledger, key=lambda name: ledger[name]["order"]) == ["beta", "alpha"]
    assert ledger["beta"]["asked_by"] == "user"


@pytest.mark.parametrize(
    ("text", "skills", "selects", "loaded"),
    [
        ("Count the apples.", [], False, []),
        ("a/alpha, or 5 USD", [], False, []),
        ("\u00a0\n/alpha all", [], True, ["alpha"]),
        ("With $alpha, please.", [], True, ["alpha"]),
        ("It costs $5.", [], True, []),
        ("Count the apples.", ["alpha"], True, ["alpha"]),
    ],
)
def test_a_turn_begins_with_a_selection_only_where_a_skill_may_be_asked_for(
    make_agent: MakeAgent, skills_dir: Path, text: str, skills: list[str], selects: bool, loaded: list[str]
) -> None:
    write_skill(skills_dir, "alpha", "Counts.")
    agent = make_agent(["done"])
    asked: Any = {"messages": [("user", text)], "skills": skills}
    nodes = [name for update in agent.graph.stream(asked, agent.config) for name in update]
    between = ["select", *(["load"] if loaded else [])] if selects else []
    assert nodes == ["discover", *between, "decide", "answer"]
    assert agent.values["loaded"] == loaded


def test_a_skill_hidden_from_the_model_is_open_to_the_user(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "deploy", "Deploys.\ndisable-model-invocation: true", "D\n")
    write_skill(skills_dir, "other", "Others.", "O\n")
    prompts: list[str] = []

    def look(messages: object) -> object:
        prompts.append(str(messages))
        return calls(call("load_skill", name="deploy"))

    agent = make_agent([look, "done", "done"])
    agent.say("go")
    assert "deploy" not in prompts[0]
    (refused,) = agent.tool_messages("load_skill")
    assert "/deploy" in refused.text
    agent.say("/deploy now")
    assert agent.values["skills_loaded"]["deploy"]["asked_by"] == "user"


def test_a_skill_closed_to_the_user_is_open_to_the_model(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "background", "Knows.\nuser-invocable: false", "B\n")
    agent = make_agent(["one", calls(call("load_skill", name="background")), "two"])
    agent.say("/background tell")
    assert agent.tool_messages("load_skill")[0].status == "error"
    agent.say("go on")
    assert agent.values["skills_loaded"]["background"]["asked_by"] == "model"


def test_long_instructions_are_cut_at_a_section_and_the_rest_can_be_read(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    """cases.md 31."""
    sections = "".join(f"## Part {number}\n" + "line\n" * 18 + f"end {number}\n" for number in range(60))
    write_skill(skills_dir, "long", "Long.", f"# Long\n{sections}")
    agent = make_agent(
        [
            calls(call("load_skill", name="long")),
            calls(call("read_resource", skill="long", path="SKILL.md", section="Part 59")),
            "done",
        ]
    )
    agent.say("go")
    entry = agent.values["skills_loaded"]["long"]
    text = entry["instructions"]
    assert entry["lines"] == 1201
    assert "end 23" in text
    assert "## Part 25" not in text
    assert "of 1201 of these instructions" in text
    assert "Part 25; Part 26" in text
    assert "end 59" in agent.tool_messages("read_resource")[0].text
    assert "1201 lines" in agent.tool_messages("load_skill")[0].text


def offered(agent: Agent, asked: Any = None) -> set[str]:
    """Run a turn and return the names of the tools that its first model call was offered."""
    seen: list[set[str]] = []
    reply = ScriptedChatModel.reply

    def spy(self: ScriptedChatModel, messages: Any, tools: frozenset[str], records: Any) -> Any:
        seen.append({*tools})
        return reply(self, messages, tools, records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedChatModel, "reply", spy)
        agent.run(asked or {"messages": [HumanMessage("go")]})
    return seen[0]


@pytest.mark.parametrize(("budget", "is_offered"), [(300, True), (8_000, True), (16_000, False)])
def test_search_is_offered_when_anything_is_left_out_or_shortened(
    make_agent: MakeAgent, skills_dir: Path, budget: int, is_offered: bool
) -> None:
    for number in range(30):
        write_skill(skills_dir, f"skill-{number}", "x" * 400 + " needle." * (number == 29))
    agent = make_agent([calls(call("search_skills", query="needle")), "done"], catalog_budget=budget)
    assert ("search_skills" in offered(agent)) is is_offered
    assert agent.values["catalog"]["shown"] == 30 or budget == 300


@needs_shell
def test_without_skills_no_tool_for_skills_is_offered_and_the_others_are(make_agent: MakeAgent) -> None:
    """cases.md 25."""
    expected = {"update_plan", "read_file", "list_dir", "grep", "write_file", "edit_file", "ask_user"}
    shell = expected | {"run_command"}
    assert offered(make_agent(["done"], enable_skills=False, enable_run_command="on")) == shell
    assert offered(make_agent(["done"], enable_run_command="on")) == shell
    assert offered(make_agent(["done"], enable_run_command="off")) == expected


@needs_part("web")
def test_the_web_is_offered_once_an_address_is_known(make_agent: MakeAgent, skills_dir: Path) -> None:
    """A model that is offered it makes up addresses of files of the workspace."""
    write_skill(skills_dir, "alpha", "Counts.", "Read https://example.org first.")
    agent = make_agent(["one", "two", "three"])
    assert "fetch_url" not in offered(agent)
    assert "fetch_url" in offered(agent, {"messages": [HumanMessage("What does www.example.org say?")]})
    assert "fetch_url" in offered(agent)
    loaded = make_agent(["one", "two"])
    loaded.say("hi", skills=["alpha"])
    assert "fetch_url" in offered(loaded)
    assert "fetch_url" in offered(make_agent(["done"], system_prompt="Our docs: https://example.org"))


def test_what_works_on_a_loaded_skill_is_offered_from_the_first_load_on(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "alpha", "Counts apples.")
    of_loaded = {"unload_skill", "read_resource", "run_script"}
    before = offered(make_agent(["done"]))
    assert {"load_skill", "update_plan"} <= before
    assert not of_loaded & before
    loaded = make_agent(["one", "two", "three"])
    loaded.say("hi", skills=["alpha"])
    assert offered(loaded) == before | of_loaded
    loaded.say("/unload alpha")
    assert offered(loaded) == before | of_loaded


@needs_shell
def test_what_reads_commands_in_the_background_is_offered_once_one_was_started(make_agent: MakeAgent) -> None:
    start = calls(call("run_command", command="true", background=True))
    agent = make_agent([start, "one", "two"], enable_run_command="on", require_approval_for=frozenset())
    of_background = {"command_output", "stop_command"}
    assert not of_background & offered(make_agent(["done"], enable_run_command="on"))
    agent.say("go")
    assert of_background <= offered(agent)


def test_a_skill_set_is_all_that_a_caller_may_load(make_agent: MakeAgent, skills_dir: Path) -> None:
    for name in ("billing-refund", "billing-admin", "deploy"):
        write_skill(skills_dir, name, "Does it.")
    loads = calls(*(call("load_skill", name=name) for name in ("billing-refund", "billing-admin", "deploy")))
    sets = {"support": ("billing-*", "!billing-admin"), "ops": ("deploy@project",)}
    agent, read = prompts_of(make_agent, [loads, "done", "done"], skill_sets=sets)
    agent.say("/deploy go", context=Context(skills="support"))
    assert [*agent.values["skills_loaded"]] == ["billing-refund"]
    assert "- billing-refund" in read.system
    assert not any(name in read.system for name in ("billing-admin", "- deploy"))
    agent.say("/deploy go", context=Context(skills="ops"))
    assert {*agent.values["skills_loaded"]} == {"billing-refund", "deploy"}


def test_a_skill_set_that_is_not_there_is_an_error_that_names_those_that_are(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "deploy", "Does it.")
    agent, _ = prompts_of(make_agent, ["done"], skill_sets={"ops": ("deploy",)})
    with pytest.raises(ContextError, match=r"'suport'\. There are: ops"):
        agent.say("go", context=Context(skills="suport"))


def test_the_model_is_told_of_a_skill_for_certain_files_once_a_call_names_one(
    make_agent: MakeAgent, workspace: Path, skills_dir: Path
) -> None:
    write_skill(skills_dir, "typescript", "Types.\npaths: src/**/*.ts, *.tsx")
    (workspace / "src").mkdir()
    (workspace / "src" / "a.ts").write_text("let a;\n")
    (workspace / "a.py").write_text("a\n")
    replies = [calls(call("read_file", path=path)) for path in ("a.py", "src/a.ts")]
    agent, read = prompts_of(make_agent, [*replies, "done", "done"])
    agent.say("go")
    told = ["- typescript" in str(prompt[0].content) for prompt in read.prompts]
    assert told == [False, False, True]
    agent.say("/typescript go")
    assert "typescript" in agent.values["skills_loaded"]
