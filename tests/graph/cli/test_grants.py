"""Grants, trust and the setting `approval` on the command line."""

import json

import pytest

from tests.agents import call, calls, write_skill
from tests.graph.cli.command_line import LOAD, RUN, CommandLine
from tests.machine import needs_bwrap

ANSWER = "544 mm."
AGAIN = [LOAD, RUN, RUN, ANSWER]


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Stop a thread at a question that the tests leave open."""
    cli = CommandLine(tmp_path_factory.mktemp("waiting"))
    cli.write_skill()
    wait(cli, *AGAIN)
    return cli


def wait(cli: CommandLine, *replies: object, thread: str = "rain") -> None:
    model = cli.script(*replies)
    done = cli.run("ask", "Rain?", "--skills-dir", str(cli.skills), "--model", model, "--thread", thread)
    assert done.code == 3


def test_a_person_grants_a_skill_lists_the_grant_and_revokes_it(cli: CommandLine) -> None:
    wait(cli, LOAD, RUN, RUN, "one", RUN, "two", RUN, "three")
    done = cli.run("resume", "rain", "--approve", "--always", "skill")
    assert done.code == 0
    assert "allow (grant)" in done.out
    (grant,) = cli.run("grants", "list", "rain", "--json").value
    assert (grant["scope"], grant["skill"]) == ("skill", "rain-gauge")
    assert "skill rain-gauge" in cli.run("grants", "list", "rain").out
    assert cli.run("ask", "Again?", "--thread", "rain").code == 0
    revoked = cli.run("grants", "revoke", "rain", grant["id"])
    assert revoked.out == f"Revoked {grant['id']} in rain.\n"
    assert "revoked" in cli.run("grants", "list", "rain").out
    assert "revoked" in cli.run("threads", "show", "rain").out
    told = f"revoked what was granted with {grant['id']}: run_script, for the skill"
    assert cli.run("runs", "show", "rain.2").out.count(told) == 1
    assert cli.run("ask", "Again?", "--thread", "rain").code == 3


def test_a_grant_is_revoked_while_a_question_stays_open(cli: CommandLine) -> None:
    wait(cli, LOAD, RUN, calls(call("list_dir"), call("write_file", path="a.txt", content="x")), "one")
    assert cli.run("resume", "rain", "--approve", "--always", "skill").code == 3
    (grant,) = cli.run("grants", "list", "rain", "--json").value
    assert cli.run("grants", "revoke", "rain", grant["id"]).code == 0
    assert cli.run("grants", "list", "rain", "--json").value[0]["revoked"] is True
    told = f"revoked what was granted with {grant['id']}: run_script, for the skill"
    assert cli.run("runs", "show", "rain.1").out.count(told) == 1
    assert cli.run("runs", "list", "--json").value[0]["outcome"] == "waiting"
    done = cli.run("resume", "rain", "--approve", "--json")
    assert done.value["answer"] == "one"
    assert done.value["usage"]["thread"]["tool_calls"] == 3
    assert (cli.workspace / "a.txt").exists()
    assert cli.run("threads", "show", "rain", "--steps").out.count(told) == 1


def test_a_pattern_serves_what_it_takes_in(cli: CommandLine) -> None:
    wait(cli, *AGAIN)
    done = cli.run("resume", "rain", "--approve", "--pattern", "run_script(scripts/add_*.py)")
    assert done.code == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--approve", "--pattern", "run_script(scripts/other.py)"], "does not take in"),
        (["--approve", "--pattern", "Ba*"], "is not understood"),
        (["--approve", "--always", "skill", "--pattern", "x"], "name one"),
        (["--reject", "--always", "skill"], "go with --approve"),
        (["--pattern", "run_script"], "go with --approve"),
    ],
)
def test_a_grant_that_does_not_fit_is_wrong_usage_and_runs_nothing(
    waiting: CommandLine, options: list[str], says: str
) -> None:
    done = waiting.run("resume", "rain", *options)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_an_open_question_survives_answers_that_do_not_fit(waiting: CommandLine) -> None:
    assert waiting.run("threads", "list", "--json").value[0]["status"] == "waiting"


def test_an_unknown_grant_is_named_with_those_that_there_are(cli: CommandLine) -> None:
    wait(cli, *AGAIN)
    cli.run("resume", "rain", "--reject")
    done = cli.run("grants", "revoke", "rain", "nothing")
    assert done.code == 1
    assert "no grant 'nothing'" in done.err
    assert cli.run("grants", "list", "other").code == 1


@pytest.mark.slow
def test_a_person_grants_on_the_terminal(cli: CommandLine) -> None:
    model = cli.script(LOAD, RUN, RUN, calls(call("write_file", path="out/a.txt", content="x")), ANSWER)
    done = cli.on_terminal(
        "ask", "Rain?", "--skills-dir", str(cli.skills), "--model", model,
        answers=[("? ", "k\n"), ("write_file", ""), ("? ", "skill\n"), ("not possible", ""),
                 ("? ", "pattern\n"), ("[write_file(out/a.txt)]", "\n")],
    )  # fmt: skip
    assert done.code == 0
    assert ANSWER in done.out
    assert (cli.workspace / "out" / "a.txt").exists()


def test_what_was_approved_in_advance_says_so(cli: CommandLine) -> None:
    model = cli.script(LOAD, RUN, ANSWER)
    done = cli.run(
        "ask", "Rain?", "--skills-dir", str(cli.skills), "--model", model, "--yes", "run,write", "--json"
    )
    (judged,) = done.value["calls"]
    assert (judged["decision"], judged["by"]) == ("allow", "policy")
    assert "--yes run" in judged["reason"]


def test_nobody_is_asked_where_approvals_are_denied(cli: CommandLine) -> None:
    model = cli.script(LOAD, RUN, "I could not.")
    done = cli.run(
        "ask", "Rain?", "--skills-dir", str(cli.skills), "--model", model, "--approval", "deny", "--json"
    )
    assert done.code == 0
    assert done.value["answer"] == "I could not."
    assert [each["decision"] for each in done.value["calls"]] == ["deny"]


def test_a_run_that_must_not_ask_ends_with_an_error_and_the_command_that_asks(cli: CommandLine) -> None:
    """cases.md 21."""
    model = cli.script(LOAD, RUN, ANSWER)
    arguments = ("ask", "Rain?", "--skills-dir", str(cli.skills), "--model", model, "--thread", "rain")
    done = cli.run(*arguments, SKILLS_AGENT_APPROVAL="fail")
    assert done.code == 1
    assert "run_script" in done.err
    assert "needs an approval" in done.err
    assert "skills-agent resume rain --approval ask" in done.err
    asked = cli.run("resume", "rain", "--approval", "ask", SKILLS_AGENT_APPROVAL="fail")
    assert asked.code == 3
    assert cli.run("resume", "rain", "--approve").out.endswith(f"{ANSWER}\n")


def test_the_question_in_a_pipe_names_the_untrusted_source(cli: CommandLine) -> None:
    project = cli.workspace / ".agent" / "skills"
    project.parent.mkdir(exist_ok=True)
    cli.skills.rename(project)
    done = cli.run("ask", "Rain?", "--model", cli.script(LOAD, RUN, ANSWER))
    assert done.code == 3
    assert "untrusted source (project)" in done.out
    assert cli.run("trust", str(project)).code == 0
    again = cli.run("ask", "Rain?", "--model", cli.script(LOAD, RUN, ANSWER))
    assert "from a trusted source (project)" in again.out


def test_trust_in_a_skill_names_the_plugin_that_it_covers(cli: CommandLine) -> None:
    plugin = cli.workspace / "vendor" / "tools"
    skill = write_skill(plugin / "skills", "deploy", "Deploys.", "Read ${CLAUDE_PLUGIN_ROOT}/help.md.")
    for name in ("plugin.json", "help.md"):
        (plugin / name).write_text("{}")
    given = cli.run("trust", str(skill))
    assert given.out.startswith(f"Trusted {skill} with its plugin, {plugin}, as it is now (")
    assert " unchanged " in cli.run("trust", "list").out
    (plugin / "help.md").write_text("[]")
    assert "changed: not trusted" in cli.run("trust", "list").out


def test_trust_is_given_listed_and_revoked(cli: CommandLine) -> None:
    folder = cli.skills / "rain-gauge"
    assert cli.run("trust", "list").out.startswith("Nothing is trusted")
    given = cli.run("trust", str(folder))
    assert given.code == 0
    assert str(folder) in given.out
    assert (cli.home / ".config" / "skills-agent" / "trust.json").is_file()
    assert cli.run("trust", "list", "--json").value[0]["state"] == "unchanged"
    (folder / "scripts" / "add_up.py").write_text("print('evil')\n")
    assert "changed: not trusted" in cli.run("trust", "list").out
    assert cli.run("trust", "revoke", str(cli.skills)).code == 0
    assert cli.run("trust", "list", "--json").value == []
    assert cli.run("trust", "revoke", str(folder)).code == 1


def test_a_folder_without_skills_is_not_trusted(cli: CommandLine) -> None:
    done = cli.run("trust", str(cli.workspace))
    assert done.code == 1
    assert "no skill" in done.err
    assert cli.run("trust", str(cli.workspace / "nowhere")).code == 2


def test_a_preapproving_skill_of_a_trusted_source_is_not_asked_about(cli: CommandLine) -> None:
    text = (cli.skills / "rain-gauge" / "SKILL.md").read_text()
    cli.write_skill(text.replace("---\n\n#", "allowed-tools: Bash(python scripts/add_up.py *)\n---\n\n#"))
    model = cli.script(LOAD, RUN, ANSWER)
    done = cli.run(
        "ask", "Rain?", "--skills-dir", str(cli.skills), "--model", model,
        SKILLS_AGENT_ALLOWED_TOOLS="preapprove",
    )  # fmt: skip
    assert done.code == 0
    assert "allow (skill)" in done.out


def test_each_open_call_gets_its_own_decision(cli: CommandLine) -> None:
    both = calls(RUN["tool_calls"][0], call("write_file", path="a.txt", content="x"))
    wait(cli, LOAD, both, ANSWER)
    granted = {"type": "approve", "grant": {"scope": "skill"}}
    decisions = cli.write("decisions.json", json.dumps([granted, {"type": "reject", "message": "No."}]))
    done = cli.run("resume", "rain", "--decisions", str(decisions), "--json").value
    assert [(each["tool"], each["decision"]) for each in done["calls"]] == [
        ("run_script", "allow"),
        ("write_file", "deny"),
    ]
    assert not (cli.workspace / "a.txt").exists()
    kept = cli.run("grants", "list", "rain", "--json").value
    assert sorted(each["scope"] for each in kept) == ["call", "skill"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json", "is not JSON"),
        ("{}", "must be a JSON list"),
        ("[]", "open calls: 1, decisions: 0"),
        ('[{"type": "perhaps"}]', "does not match any of the expected tags"),
        ('[{"type": "approve", "grant": {"scope": "pattern", "pattern": "Ba*"}}]', "is not understood"),
    ],
)
def test_decisions_that_do_not_fit_leave_the_question_open(
    waiting: CommandLine, text: str, says: str
) -> None:
    file = waiting.write("decisions.json", text)
    done = waiting.run("resume", "rain", "--decisions", str(file))
    assert (done.code, done.out.count("all stations")) == (2, 0)
    assert says in done.err
    assert waiting.run("threads", "list", "--json").value[0]["status"] == "waiting"
    (run,) = waiting.run("runs", "list", "--json").value
    assert run["outcome"] == "waiting"
    assert "failed" not in waiting.run("runs", "show", "rain.1").out


def test_an_answer_that_was_not_taken_is_in_the_record(waiting: CommandLine) -> None:
    """It was recorded as `run_failed`, and the run as failed, though its question was open."""
    file = waiting.write("decisions.json", '[{"type": "approve", "grant": {"scope": "pattern"}}]')
    done = waiting.run("resume", "rain", "--decisions", str(file), "--json")
    fault = "decisions: `pattern` goes with the scope `pattern`, and with no other"
    assert (done.code, done.value["status"]) == (2, "error")
    assert f"error: {fault}. The question stays open." in done.err
    assert f"an answer was not taken: {fault}" in waiting.run("runs", "show", "rain.1").out


@needs_bwrap
def test_what_the_network_was_opened_to_is_listed_and_revoked(cli: CommandLine) -> None:
    asks = calls(call("run_command", command="touch a", network=["api.example.invalid"]))
    other = calls(call("run_command", command="touch a", network=["b.example.invalid"]))
    wait(cli, asks, other, asks, "done", asks, "end")
    hosts = "Network(*.example.invalid)"
    assert cli.run("resume", "rain", "--approve", "--pattern", hosts).code == 3
    done = cli.run("resume", "rain", "--approve", "--always", "thread")
    assert "Opens the network to api.example.invalid" not in done.out
    first, second = cli.run("grants", "list", "rain").out.splitlines()[1:]
    assert first.endswith(f"pattern {hosts}")
    assert second.endswith("this thread, network: b.example.invalid")
    for grant in cli.run("grants", "list", "rain", "--json").value:
        assert cli.run("grants", "revoke", "rain", grant["id"]).code == 0
    asked = cli.run("ask", "Again?", "--thread", "rain")
    assert asked.code == 3
    assert "Opens the network to api.example.invalid" in asked.out


@pytest.mark.slow
@needs_bwrap
def test_the_terminal_offers_an_entry_for_the_host_alone(cli: CommandLine) -> None:
    asks = calls(call("run_command", command="touch a", network=["api.example.invalid"]))
    done = cli.on_terminal(
        "ask", "go", "--model", cli.script(asks, asks, "done"),
        answers=[("? ", "pattern\n"), ("(Network(api.example.invalid): the network alone)",
                 "Network(api.example.invalid)\n"), ("? ", "yes\n")],
    )  # fmt: skip
    assert done.code == 0, done.out
    assert done.out.count("Opens the network to") == 1
