"""Which skills are loaded, in what order, and with what of the user's words in them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from skills_agent.graph.models.scripted import ScriptedChatModel
from skills_agent.skills.sources import MemorySource
from skills_agent.state.context import Context, ContextError
from tests.agents import FREE, Agent, Recorder, call, calls, write_skill
from tests.kit import MakeAgent
from tests.machine import needs_part, needs_shell
from tests.skills.search.test_vectors import NGrams


def prompts_of(make_agent: MakeAgent, replies: Sequence[object], **settings: Any) -> tuple[Agent, Recorder]:
    """Return an agent, and what its model reads."""
    recorder = Recorder(replies)
    return make_agent(recorder.entries, **settings), recorder


def load(*names: str) -> dict[str, Any]:
    return calls(*(call("load_skill", name=name) for name in names))


def in_order(agent: Agent) -> list[str]:
    ledger = agent.values.get("skills_loaded") or {}
    return sorted(ledger, key=lambda name: ledger[name]["order"])


BY_HAND = "disable-model-invocation: true"
ONLY_USER = "requires a skill that only the user can load"
ORDER = {"report": "requires: [figures, style]", "figures": "requires: style", "style": ""}
DIAMOND = {"report": "requires: style", "letter": "requires: style", "style": ""}
CYCLE = {"a": "requires: [b, nowhere]", "b": "requires: a"}
VERSIONS = {"chart": "version: 1.0", "table": "version: 1.3", "report": "requires: chart>=1.2, table>=1.2"}
CHAIN = {f"s{number}": f"requires: s{number + 1}" for number in range(1200)}
MANUAL = {"secret-deploy": BY_HAND, "helper": "requires: secret-deploy"}
MANUAL_VERSION = {"secret": f"{BY_HAND}\nversion: 3.1", "helper": "requires: secret>=4"}


@pytest.mark.parametrize(
    ("skills", "asked", "loaded", "said", "never"),
    [
        (ORDER, ["report"], ["style", "figures", "report"], [], ""),
        (DIAMOND, ["report", "letter"], ["style", "report", "letter"], [], ""),
        (CYCLE, ["a"], ["b", "a"], ["cycle (a -> b -> a)", "requires nowhere"], ""),
        (VERSIONS, ["report"], ["table", "report"], ["report requires chart>=1.2"], ""),
        (CHAIN, ["s0"], [], ["limit of 10"], ""),
        # What only a person loads is neither loaded nor told by its name, or its version.
        (MANUAL, ["helper", "nix"], ["helper"], [ONLY_USER], "secret"),
        (MANUAL_VERSION, ["helper"], ["helper"], [], "3.1"),
    ],
    ids=["order", "diamond", "cycle", "versions", "chain", "manual", "manual version"],
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
    agent, read = prompts_of(make_agent, [load(*asked), "done"])
    agent.say("go")
    assert in_order(agent) == loaded
    receipts = "\n".join(message.text for message in agent.tool_messages("load_skill"))
    for text in (*said, *(f"Loaded {name}" for name in loaded)):
        assert receipts.count(text) == 1
    assert not never or never not in receipts + read.texts[1]


@pytest.mark.parametrize(
    ("is_trusted", "loaded"), [(False, ["mid", "proj"]), (True, ["mine", "mid", "proj"])]
)
def test_a_manual_skill_follows_the_users_request_only_where_a_trusted_skill_requires_it(
    make_agent: MakeAgent, skills_dir: Path, tmp_path: Path, *, is_trusted: bool, loaded: list[str]
) -> None:
    own = tmp_path / "home" / ".agent" / "skills"
    write_skill(own, "mine", f"Deploys.\n{BY_HAND}")
    write_skill(own, "proj", "Helps.\nrequires: mid")
    write_skill(own if is_trusted else skills_dir, "mid", "Helps, too.\nrequires: mine")
    agent = make_agent(["done"])
    agent.say("/proj go")
    assert in_order(agent) == loaded
    (receipt,) = agent.tool_messages("load_skill")
    assert (f"mid {ONLY_USER}" in receipt.text) == (not is_trusted)
    reasons = {name: each["reason"] for name, each in agent.values["skills_loaded"].items()}
    assert reasons == {name: "" if name == "proj" else "proj requires it" for name in loaded}


def test_each_slash_command_fills_placeholders_anew(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "deploy", "Deploys.", "Deploy to $ARGUMENTS.\n")
    agent, read = prompts_of(make_agent, ["done"] * 5)
    agent.say("/deploy prod")
    agent.say("/deploy staging")
    first, second = read.texts[1].index("Deploy to prod."), read.texts[1].index("Deploy to staging.")
    assert first < read.texts[1].index("/deploy staging") < second
    agent.say("/deploy staging")  # The same again: it is there.
    assert read.texts[2].count("Deploy to staging.") == 1
    agent.say("/deploy prod")
    assert read.texts[3].rindex("Deploy to prod.") > read.texts[3].index("Deploy to staging.")
    assert agent.values["skills_loaded"]["deploy"]["arguments"] == "prod"
    # Where the transcript is gone, the newest activation is shown.
    agent.graph.update_state(agent.config, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
    agent.say("and now?")
    assert "still active" in read.texts[4]
    assert "Deploy to prod." in read.texts[4]


def test_arguments_are_what_a_person_or_the_model_gives(make_agent: MakeAgent, skills_dir: Path) -> None:
    for name in ("fix", "lint", "test", "form"):
        write_skill(skills_dir, name, "Does.", f"{name} does: [$ARGUMENTS]. Word: $0.\n")
    loads = [calls(call("load_skill", name="form", arguments=each)) for each in ("1", "2", "2")]
    agent, read = prompts_of(make_agent, ["done", "done", *loads, "done"])
    agent.say("/fix /lint the /gamma work")
    assert "fix does: [the /gamma work]. Word: the." in read.texts[0]
    assert "lint does: [the /gamma work]. Word: the." in read.texts[0]
    agent.say("do it with $test")
    assert "test does: []. Word: $0." in read.texts[1]
    agent.say("go")
    assert ["form does: [1]" in text for text in read.texts[2:]] == [False, True, True, True]
    assert ["form does: [2]" in text for text in read.texts[2:]] == [False, False, True, True]
    refused = agent.tool_messages("load_skill")[-1]
    assert (refused.status, "is loaded, and its instructions are above" in refused.text) == ("error", True)


FIVE = ["epsilon", "delta", "gamma", "beta", "alpha"]


@pytest.mark.parametrize(
    ("text", "skills", "loaded"),
    [
        ("a/alpha, or 5 USD", [], []),
        ("\u00a0\n/alpha all", [], ["alpha"]),
        ("Use $beta, then $alpha; not $other, $HOME or cost$gamma for $5", [], ["beta", "alpha"]),
        ("go", FIVE, FIVE),  # a person is not bound by the limit of one step
    ],
)
def test_what_a_person_names_is_loaded_in_the_order_named(
    make_agent: MakeAgent, skills_dir: Path, text: str, skills: list[str], loaded: list[str]
) -> None:
    for name in FIVE:
        write_skill(skills_dir, name, "Counts.")
    agent = make_agent(["done"])
    agent.say(text, skills=skills)
    assert in_order(agent) == loaded


def test_a_skill_is_closed_to_the_model_or_to_the_user(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "deploy", f"Deploys.\n{BY_HAND}")
    write_skill(skills_dir, "background", "Knows.\nuser-invocable: false")
    agent, read = prompts_of(make_agent, [load("deploy"), "done", "done", load("background"), "done"])
    agent.say("go")
    assert ("deploy" in read.texts[0], "background" in read.texts[0]) == (False, True)
    assert "/deploy" in agent.tool_messages("load_skill")[0].text
    agent.say("/background /deploy now")
    assert [each.status for each in agent.tool_messages("load_skill")] == ["error", "error", "success"]
    agent.say("go on")
    asked_by = {name: each["asked_by"] for name, each in agent.values["skills_loaded"].items()}
    assert asked_by == {"deploy": "user", "background": "model"}


@pytest.mark.parametrize("ask", [{"text": "/nosuch do it"}, {"text": "go", "skills": ["nosuch"]}])
def test_the_model_reads_no_name_of_a_manual_skill_in_what_is_told_of_an_unknown_one(
    make_agent: MakeAgent, skills_dir: Path, ask: dict[str, Any]
) -> None:
    write_skill(skills_dir, "alpha", "Does.")
    write_skill(skills_dir, "nosuch-secret", f"Deploys.\n{BY_HAND}")
    agent, read = prompts_of(make_agent, ["done"])
    agent.say(**ask)
    assert "There is no skill named 'nosuch'. Known skills: alpha." in read.texts[0]
    assert "nosuch-secret" not in read.texts[0]


def test_a_skill_that_was_skipped_is_not_said_to_be_unknown(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "fine", "Does.")
    write_skill(skills_dir, "too-big", "Does.", "x" * 10_500_000)
    agent = make_agent([load("too-big"), "done"])
    agent.say("go")
    (refused,) = agent.tool_messages("load_skill")
    assert "Skill 'too-big' is there, and cannot be used" in refused.text
    assert "10,000,000" in refused.text


def test_long_instructions_are_cut_at_a_section(make_agent: MakeAgent, skills_dir: Path) -> None:
    """cases.md 31."""
    sections = "".join(f"## Part {number}\n" + "line\n" * 18 + f"end {number}\n" for number in range(60))
    write_skill(skills_dir, "long", "Long.", f"# Long\n{sections}")
    rest = call("read_resource", skill="long", path="SKILL.md", section="Part 59")
    agent = make_agent([load("long"), calls(rest), "done"])
    agent.say("go")
    entry = agent.values["skills_loaded"]["long"]
    text = entry["instructions"]
    assert entry["lines"] == 1201
    assert ("end 23" in text, "## Part 25" in text) == (True, False)
    assert "of 1201 of these instructions" in text
    assert "Part 25; Part 26" in text
    assert "end 59" in agent.tool_messages("read_resource")[0].text
    assert "1201 lines" in agent.tool_messages("load_skill")[0].text


# Which tools are offered


def offered(agent: Agent, text: str = "go", **said: Any) -> set[str]:
    """Run a turn and return the names of the tools that its first model call was offered."""
    seen: list[set[str]] = []
    reply = ScriptedChatModel.reply

    def spy(self: ScriptedChatModel, messages: Any, tools: frozenset[str], records: Any) -> Any:
        seen.append({*tools})
        return reply(self, messages, tools, records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedChatModel, "reply", spy)
        agent.say(text, **said)
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
def test_what_can_be_used_by_now_is_offered_and_no_more(make_agent: MakeAgent, skills_dir: Path) -> None:
    """cases.md 25."""
    plain = {"update_plan", "read_file", "list_dir", "grep", "write_file", "edit_file", "ask_user"}
    start = calls(call("run_command", command="true", background=True))
    shell = {"enable_run_command": "on", **FREE}
    agent = make_agent([start, "one", "two"], **shell)
    assert offered(agent) == {*plain, "run_command"}
    assert {"command_output", "stop_command"} <= offered(agent)  # one was started
    write_skill(skills_dir, "alpha", "Counts apples.")
    assert offered(make_agent(["done"], enable_skills=False, **shell)) == {*plain, "run_command"}
    agent = make_agent(["done"] * 3, enable_run_command="off")
    assert offered(agent) == {*plain, "load_skill"}
    of_loaded = {*plain, "load_skill", "unload_skill", "read_resource", "run_script"}
    assert offered(agent, skills=["alpha"]) == of_loaded
    agent.say("/unload alpha")
    assert offered(agent) == of_loaded


@needs_part("web")
def test_the_web_is_offered_once_an_address_is_known(make_agent: MakeAgent, skills_dir: Path) -> None:
    """A model that is offered it makes up addresses of files of the workspace."""
    write_skill(skills_dir, "alpha", "Counts.", "Read https://example.org first.")
    agent = make_agent(["one", "two", "three"])
    said = ["go", "What does www.example.org say?", "go"]
    assert ["fetch_url" in offered(agent, text) for text in said] == [False, True, True]
    loaded = make_agent(["one", "two"])
    loaded.say("hi", skills=["alpha"])
    assert "fetch_url" in offered(loaded)
    assert "fetch_url" in offered(make_agent(["done"], system_prompt="Our docs: https://example.org"))


def test_an_embedding_model_finds_skills_that_are_like_the_request(make_agent: MakeAgent) -> None:
    names = ("aardvarks", "bookkeeping", "chess", "dancing", "elephants", "spreadsheets")
    skills = {name: {"SKILL.md": f"---\ndescription: All about {name}.\n---\n"} for name in names}
    parts = {"sources": [MemorySource(skills)], "embeddings": NGrams()}
    search = calls(call("search_skills", query="subspreadsheet"))
    agent = make_agent([search, "done"], parts=parts, catalog_budget=40)
    agent.say("subspreadsheet")
    (found,) = agent.tool_messages("search_skills")
    assert found.text.startswith("- spreadsheets: All about spreadsheets.")


# What a caller, and a file, bring and take away


def test_a_skill_set_is_all_that_a_caller_may_load(make_agent: MakeAgent, skills_dir: Path) -> None:
    names = ("billing-refund", "billing-admin", "deploy")
    for name in names:
        write_skill(skills_dir, name, "Does it.")
    sets = {"support": ("billing-*", "!billing-admin"), "ops": ("deploy@project",)}
    agent, read = prompts_of(make_agent, [load(*names), "done", "done"], skill_sets=sets)
    agent.say("/deploy go", context=Context(skills="support"))
    assert in_order(agent) == ["billing-refund"]
    assert "- billing-refund" in read.system
    assert not any(name in read.system for name in ("billing-admin", "- deploy"))
    agent.say("/deploy go", context=Context(skills="ops"))
    assert in_order(agent) == ["billing-refund", "deploy"]
    with pytest.raises(ContextError, match=r"'suport'\. There are: "):
        agent.say("go", context=Context(skills="suport"))


def test_a_skill_is_told_once_its_files_are(make_agent: MakeAgent, workspace: Path, skills_dir: Path) -> None:
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
    assert in_order(agent) == ["typescript"]
