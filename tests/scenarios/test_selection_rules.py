"""Which skills are loaded, in what order, and with what of the user's words in them."""

from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.models.scripted import ScriptedChatModel
from tests.agents import Agent, call, calls, write_skill
from tests.conftest import MakeAgent


def test_what_a_skill_requires_comes_before_it(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "report", "Reports.\nrequires: [figures, style]", "REPORT\n")
    write_skill(skills_dir, "figures", "Finds figures.\nrequires: style", "FIGURES\n")
    write_skill(skills_dir, "style", "House style.", "STYLE\n")
    agent = make_agent([calls(call("load_skill", name="report")), "done"])
    agent.say("report")
    ledger = agent.values["skills_loaded"]
    assert sorted(ledger, key=lambda name: ledger[name]["order"]) == ["style", "figures", "report"]
    (receipt,) = agent.tool_messages("load_skill")
    assert [line.split(":")[0] for line in receipt.text.splitlines()] == [
        "Loaded style",
        "Loaded figures",
        "Loaded report",
    ]


def test_a_requirement_that_is_loaded_or_asked_for_already_is_not_loaded_again(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "report", "Reports.\nrequires: style", "REPORT\n")
    write_skill(skills_dir, "letter", "Letters.\nrequires: style", "LETTER\n")
    write_skill(skills_dir, "style", "House style.", "STYLE\n")
    agent = make_agent([calls(call("load_skill", name="report"), call("load_skill", name="letter")), "done"])
    agent.say("both")
    assert sorted(agent.values["skills_loaded"]) == ["letter", "report", "style"]
    texts = "\n".join(message.text for message in agent.tool_messages("load_skill"))
    assert texts.count("Loaded style") == 1


def test_missing_and_circular_requirements_are_reported_and_the_skill_is_loaded(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "a", "First.\nrequires: [b, nowhere]", "A\n")
    write_skill(skills_dir, "b", "Second.\nrequires: a", "B\n")
    agent = make_agent([calls(call("load_skill", name="a")), "done"])
    agent.say("go")
    assert sorted(agent.values["skills_loaded"]) == ["a", "b"]
    (receipt,) = agent.tool_messages("load_skill")
    assert "cycle (a -> b -> a)" in receipt.text
    assert "requires nowhere" in receipt.text


def test_requirements_count_towards_the_limit_of_loaded_skills(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(skills_dir, "a", "First.\nrequires: b", "A\n")
    write_skill(skills_dir, "b", "Second.", "B\n")
    agent = make_agent([calls(call("load_skill", name="a")), "done"], max_loaded_skills=1)
    agent.say("go")
    (refused,) = agent.tool_messages("load_skill")
    assert refused.status == "error"
    assert "with what it requires (b)" in refused.text
    assert not agent.values.get("skills_loaded")


def test_a_long_chain_of_requirements_ends_at_the_limit(make_agent: MakeAgent, skills_dir: Path) -> None:
    for number in range(1200):
        write_skill(skills_dir, f"s{number}", f"Nr.\nrequires: s{number + 1}", "x\n")
    agent = make_agent([calls(call("load_skill", name="s0")), "done"])
    agent.say("go")
    (refused,) = agent.tool_messages("load_skill")
    assert "limit of 10" in refused.text


def test_the_arguments_of_a_slash_command_fill_the_placeholders(
    make_agent: MakeAgent, skills_dir: Path
) -> None:
    write_skill(
        skills_dir,
        "fix",
        "Fixes.\nargument-hint: '[issue] [branch]'\narguments: [issue, branch]",
        "All: $ARGUMENTS. First: $1, second: $2, third: [$3]. Named: $issue on ${branch}. Not ours: $HOME.\n",
    )
    agent = make_agent(["done"])
    agent.say('/fix 42 "my branch"')
    text = agent.values["skills_loaded"]["fix"]["instructions"]
    assert text.startswith('All: 42 "my branch". First: 42, second: my branch, third: [].')
    assert "Named: 42 on my branch. Not ours: $HOME." in text


def test_a_skill_that_takes_no_arguments_keeps_its_dollars(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "columns", "Columns.", "Run `awk '{print $1}'`.\n")
    agent = make_agent(["done"])
    agent.say("/columns of the file")
    assert "print $1" in agent.values["skills_loaded"]["columns"]["instructions"]


def test_a_skill_that_the_model_loads_keeps_its_placeholders(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "fix", "Fixes.\nargument-hint: issue", "Fix $ARGUMENTS.\n")
    agent = make_agent([calls(call("load_skill", name="fix")), "done"])
    agent.say("fix it")
    assert "Fix $ARGUMENTS." in agent.values["skills_loaded"]["fix"]["instructions"]


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
    assert nodes == (
        ["discover", "select", *(["load"] if loaded else []), "decide"] if selects else ["decide"]
    )
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


def offered(agent: Agent) -> set[str]:
    """Run a turn and return the names of the tools that its first model call was offered."""
    seen: list[set[str]] = []
    reply = ScriptedChatModel.reply

    def spy(self: ScriptedChatModel, messages: Any, tools: frozenset[str], records: Any) -> Any:
        seen.append({*tools})
        return reply(self, messages, tools, records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedChatModel, "reply", spy)
        agent.say("go")
    return seen[0]


@pytest.mark.parametrize("many", [True, False])
def test_search_is_offered_only_when_not_all_skills_are_shown(
    make_agent: MakeAgent, skills_dir: Path, many: bool
) -> None:
    for number in range(30 if many else 2):
        write_skill(skills_dir, f"skill-{number}", "x" * 400 + " needle." * (number == 29))
    agent = make_agent([calls(call("search_skills", query="needle")), "done"], catalog_budget=300)
    assert ("search_skills" in offered(agent)) is many


def test_without_skills_no_tool_for_skills_is_offered_and_the_others_are(make_agent: MakeAgent) -> None:
    """cases.md 25."""
    expected = {"update_plan", "read_file", "list_dir", "grep", "write_file", "edit_file", "ask_user"}
    expected.add("fetch_url")
    shell = {"run_command", "command_output", "stop_command"}
    assert offered(make_agent(["done"], enable_skills=False, enable_run_command="on")) == expected | shell
    assert offered(make_agent(["done"], enable_run_command="on")) == expected | shell
    assert offered(make_agent(["done"], enable_run_command="off")) == expected


def test_the_offered_tools_do_not_depend_on_what_is_loaded(make_agent: MakeAgent, skills_dir: Path) -> None:
    write_skill(skills_dir, "alpha", "Counts apples.")
    before = offered(make_agent(["done"]))
    assert {"load_skill", "unload_skill", "read_resource", "run_script", "update_plan"} <= before
    loaded = make_agent(["one", "two"])
    loaded.say("hi", skills=["alpha"])
    assert offered(loaded) == before
