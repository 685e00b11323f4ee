"""The network as a question: who agrees to which hosts, and what a program reaches then."""

from pathlib import Path
from typing import Any

import pytest

from extras.shell.tests.lines import line
from skills_agent.skills.policy.verdict import Opinion
from tests.kit import MakeAgent
from tests.machine import needs_bwrap

pytestmark = needs_bwrap

API = "api.example.invalid"


def running(command: str, *hosts: str) -> dict[str, Any]:
    return line(command, **({"network": list(hosts)} if hosts else {}))


@pytest.mark.parametrize(
    ("command", "settings"), [("ls", {}), ("true", {"require_approval_for": ["network"]})]
)
def test_a_host_is_asked_about_where_the_program_is_not(
    make_agent: MakeAgent, command: str, settings: dict[str, Any]
) -> None:
    agent = make_agent([running(command, API, "*.example.com:8443"), "done"], **settings)
    agent.say("go")
    text = agent.question.replace("\\", "")
    assert f"Opens the network to {API}, *.example.com:8443." in text
    assert f"Isolation: bwrap, network: {API}, *.example.com:8443" in text


def test_what_is_no_host_is_never_asked_about(make_agent: MakeAgent) -> None:
    agent = make_agent([running("true", "https://x.example/"), "done"])
    agent.say("go")
    assert not agent.state.interrupts
    assert "is no host" in agent.results("run_command")[0]


def test_a_grant_for_a_command_opens_no_other_host(make_agent: MakeAgent) -> None:
    replies = [running("true", API), running("true"), running("true", API), running("true", "evil.example")]
    agent = make_agent([*replies, "done"])
    agent.say("go")
    agent.answer({"type": "approve", "grant": {"scope": "thread"}})
    assert len(agent.tool_messages("run_command")) == 3
    assert "Opens the network to evil.example." in agent.question


@pytest.mark.parametrize("ban", ["Network", f"Network({API})", "Network(*.example.invalid)"])
def test_the_operator_can_close_the_network_for_good(make_agent: MakeAgent, ban: str) -> None:
    replies = [running("true", "*.example.invalid"), running("true"), "done"]
    agent = make_agent(replies, exclude_tools=[ban], require_approval_for=[])
    agent.say("go")
    refused, ran = agent.results("run_command")
    assert f"the operator turned off {ban}" in refused
    assert ran.startswith("exit code 0")


def test_an_open_network_leads_to_no_private_address(make_agent: MakeAgent, workspace: Path) -> None:
    (workspace / "ask.py").write_text(
        "import urllib.request\n"
        "for host in ('localhost.', '2130706433', '0x7f000001', 'other.example'):\n"
        "    request = urllib.request.Request(f'https://{host}/')\n"
        "    try:\n"
        "        print(urllib.request.urlopen(request).read())\n"
        "    except OSError as error:\n"
        "        print(host, getattr(error, 'code', error))\n"
    )
    hosts = ("localhost", "2130706433", "0x7f000001")
    agent = make_agent([running("python3 ask.py", *hosts), "done"], require_approval_for=[])
    agent.say("go")
    (answer,) = agent.results("run_command")
    assert answer.count(" 403") == 4
    assert answer.count("127.0.0.1 is no public address") == 3
    assert "other.example:443 (the network is closed to it)" in answer


def test_a_rule_of_the_host_that_allows_a_command_opens_no_network(make_agent: MakeAgent) -> None:
    replies = [running("touch a"), running("touch a", API), "done"]
    agent = make_agent(replies, approvers=[lambda _: Opinion("allow")])
    agent.say("go")
    assert len(agent.tool_messages("run_command")) == 1
    assert agent.state.interrupts
