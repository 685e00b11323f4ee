"""MCP servers on the command line: what doctor says of them, and that they end with a command."""

import json

import pytest

from extras.mcp.tests.mcp_skills import free_port
from tests.graph.cli.command_line import CommandLine
from tests.mcp_servers import command


@pytest.mark.slow
def test_doctor_says_which_servers_can_be_reached_and_which_tools_are_not_offered(cli: CommandLine) -> None:
    servers = {
        "strange": {**command("hostile"), "connect_timeout": 60},
        "gone": {"url": "http://someone:a-password@127.0.0.1:9/mcp"},
    }
    variables = {"SKILLS_AGENT_MCP_SERVERS": json.dumps(servers)}
    told = cli.run("doctor", "--json", **variables)
    strange, gone = told.value["mcp_servers"]
    assert (strange["name"], strange["tools"], strange["fault"]) == ("strange", 12, "")
    assert "first: there is another tool of that name before it" in strange["faults"]
    assert "it cannot be reached" in gone["fault"]
    assert "a-password" not in told.out
    text = cli.run("doctor", **variables).out
    assert "reachable, 12 tools" in text
    assert "not offered: bomb: its schema is larger" in text


def test_the_list_of_skills_says_which_server_could_not_be_asked_for_its_own(cli: CommandLine) -> None:
    servers = {"gone": {"url": f"http://127.0.0.1:{free_port()}/mcp", "skills": True}}
    variables = {"SKILLS_AGENT_MCP_SERVERS": json.dumps(servers)}
    told = cli.run("skills", "list", **variables)
    assert told.code == 0
    assert "csv-report" in told.out
    (line,) = [each for each in told.errors.splitlines() if each]
    assert line.startswith("Skills may be missing. MCP server gone: it cannot be reached")
    assert isinstance(cli.run("skills", "list", "--json", **variables).value, list)
    assert "missing" not in cli.run("skills", "list").err
