"""Installing from a server of MCP that the settings name: its headers go to it, and to nobody else."""

import json
from collections.abc import Iterator

import pytest

from skills_agent.mcp.servers import McpServer, headers_for
from tests.graph.cli.command_line import CommandLine
from tests.mcp_skills import Skills, publishing, skill

KEY = "Bearer s3cret-of-refunds"


@pytest.fixture
def server() -> Iterator[Skills]:
    with publishing(refunds={"SKILL.md": skill("refunds")}) as skills:
        skills.key = KEY
        yield skills


def settings(url: str, **more: str) -> dict[str, str]:
    servers = {"refunds": {"url": url, "headers": {"Authorization": "Bearer ${REFUNDS_KEY}"}}}
    return {"SKILLS_AGENT_MCP_SERVERS": json.dumps(servers), "REFUNDS_KEY": "s3cret-of-refunds", **more}


@pytest.mark.slow
def test_a_server_that_wants_a_key_is_installed_from_and_synced(cli: CommandLine, server: Skills) -> None:
    source, known = f"mcp+{server.url}", settings(server.url)
    refused = cli.run("skills", "install", source, "--yes")
    assert (refused.code, "the server does not answer" in refused.errors) == (1, True)

    done = cli.run("skills", "install", source, "--yes", **known)
    assert done.code == 0, done.errors
    folder = cli.workspace / ".agent" / "skills"
    assert "s3cret" not in (folder / "skills.lock").read_text() + done.out + done.err

    (folder / "refunds" / "SKILL.md").unlink()
    assert cli.run("skills", "sync", "--yes", **known).code == 0
    assert (folder / "refunds" / "SKILL.md").is_file()
    assert cli.run("skills", "sync", "--frozen", **known).code == 0
    assert cli.run("skills", "outdated", **known).code == 0
    server.skills["refunds"] = {"SKILL.md": skill("refunds", "Pays back.")}
    assert cli.run("skills", "update", "--yes", **known).code == 0
    assert "Pays back." in (folder / "refunds" / "SKILL.md").read_text()


def test_the_key_goes_to_no_other_server_and_to_no_redirect(cli: CommandLine, server: Skills) -> None:
    with publishing(other={"SKILL.md": skill("other")}) as other:
        known = settings(server.url)
        assert cli.run("skills", "install", f"mcp+{other.url}", "--yes", **known).code == 0
        assert cli.run("skills", "install", f"mcp+{other.url}/sub", "--yes", **known).code in {0, 1}
        server.answers = lambda _: (
            f"HTTP/1.1 307 There\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        assert cli.run("skills", "install", f"mcp+{server.url}", "--yes", **known).code == 1
        assert not [each for each in other.headers if "Authorization" in each]


def test_a_typed_user_takes_the_place_of_the_key(cli: CommandLine, server: Skills) -> None:
    typed = server.url.replace("://", "://me:typed@")
    cli.run("skills", "install", f"mcp+{typed}", "--yes", **settings(server.url))
    assert {each.get("Authorization") for each in server.headers} == {"Basic bWU6dHlwZWQ="}


def test_a_variable_that_is_not_set_is_named(cli: CommandLine, server: Skills) -> None:
    known = settings(server.url)
    del known["REFUNDS_KEY"]
    refused = cli.run("skills", "install", f"mcp+{server.url}", "--yes", **known)
    assert refused.code == 1
    assert "its headers in mcp_servers: the variable REFUNDS_KEY is not set" in refused.errors
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://skills.example/mcp", True),
        ("https://SKILLS.example:443/mcp/", True),
        ("http://skills.example/mcp", False),
        ("https://skills.example:8443/mcp", False),
        ("https://skills.example/other", False),
        ("https://skills.example/mcp?tenant=2", False),
        ("https://skills.example.evil/mcp", False),
    ],
)
def test_only_the_url_of_the_settings_is_sent_the_headers(url: str, *, sent: bool) -> None:
    servers = {
        "a": McpServer(command="x"),
        "b": McpServer(url="https://skills.example/mcp", headers={"X": "1"}),
    }
    assert headers_for(url, servers, {}) == ({"X": "1"} if sent else {})


def test_a_user_in_the_url_of_the_settings_is_sent() -> None:
    servers = {"b": McpServer(url="https://me:pw@skills.example/mcp")}
    assert headers_for("https://skills.example/mcp", servers, {}) == {"Authorization": "Basic bWU6cHc="}
