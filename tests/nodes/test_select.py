"""Which skills a model may load beside those that its thread had."""

from pathlib import Path

from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent


def test_a_model_loads_no_skill_in_place_of_one_that_the_thread_had_from_elsewhere(
    make_agent: MakeAgent, skills_dir: Path, tmp_path: Path
) -> None:
    """The ledger has one record a name: nobody would know that the other one was read."""
    write_skill(skills_dir, "alpha", "Project's.", "PROJECT\n")
    write_skill(tmp_path / "home/.agent/skills", "alpha", "User's.", "USER\n")
    loads = [calls(call("load_skill", name=f"alpha@{source}")) for source in ("project", "user")]
    agent = make_agent([loads[0], calls(call("unload_skill", name="alpha")), loads[1], "done", "done"])
    agent.say("go")
    assert agent.values["skills_loaded"]["alpha"]["source"] == "project"
    assert [each.status for each in agent.tool_messages("load_skill")] == ["success", "error"]
    agent.say("/alpha@user")
    assert agent.values["skills_loaded"]["alpha"]["source"] == "user"
