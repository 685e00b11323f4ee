"""Skills of MCP servers in a run: loaded, run in the sandbox, changed, taken away."""

import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from extras.mcp.tests.mcp_skills import publishing, skill
from tests.agents import call, calls, write_skill
from tests.kit import MakeAgent

RUN = "from pathlib import Path\nprint('ran in', Path('marker.txt').read_text())\n"
FILES: dict[str, str | bytes] = {
    "SKILL.md": skill("refunds", "Pays back.", **{"allowed-tools": "run_script write_file"}),
    "scripts/run.py": RUN,
}
LOAD = calls(call("load_skill", name="refunds"))
SCRIPT = calls(call("run_script", skill="refunds", path="scripts/run.py", args=[]))
APPROVE = {"type": "approve"}


@pytest.fixture
def marker(workspace: Path) -> None:
    """Put a file into the workspace that the skill's script reads."""
    (workspace / "marker.txt").write_text("here")


def of(url: str) -> dict[str, Any]:
    return {"far": {"url": url, "skills": True, "connect_timeout": 60}}


def test_a_skill_is_loaded_and_its_script_asked_about_whatever_it_says_of_itself(
    make_agent: MakeAgent, marker: None
) -> None:
    with publishing(refunds=FILES) as server:
        agent = make_agent([LOAD, SCRIPT, "done"], mcp_servers=of(server.url), allowed_tools="preapprove")
        agent.say("go")
        (loaded,) = agent.values["skills_loaded"].values()
        assert (loaded["source"], loaded["path"]) == ("mcp:far", "skill://refunds/SKILL.md")
        assert loaded["allowed_tools"] is None
        assert "untrusted" in agent.question
        agent.answer(APPROVE)
        assert "ran in here" in agent.results("run_script")[0]


def test_a_thread_goes_on_with_its_snapshot_when_the_server_is_gone(
    make_agent: MakeAgent, marker: None
) -> None:
    saver = InMemorySaver()
    with publishing(refunds=FILES) as server:
        make_agent([LOAD, SCRIPT], mcp_servers=of(server.url), checkpointer=saver).say("go")
    later = make_agent([LOAD, SCRIPT, "done"], mcp_servers=of(server.url), checkpointer=saver)
    later.answer(APPROVE)
    assert "ran in here" in later.results("run_script")[0]


FASTMCP = """
import sys
from pathlib import Path
from fastmcp import FastMCP
from fastmcp.server.providers.skills import SkillsDirectoryProvider
from fastmcp.skills.extension import SkillsExtension

provider = SkillsDirectoryProvider(
    roots=Path(sys.argv[1]), supporting_files="resources", experimental_skills=True
)
server = FastMCP("skills")
server.add_provider(provider)
server.add_extension(SkillsExtension(providers=[provider]))
server.run(transport="stdio", show_banner=False)
"""


@pytest.mark.slow
def test_an_unmodified_fastmcp_servers_skill_is_loaded_and_its_script_run(
    make_agent: MakeAgent, marker: None, tmp_path: Path
) -> None:
    pytest.importorskip("fastmcp", reason="the extra `dev` is not installed: fastmcp>=4.1,<4.2")
    made = write_skill(tmp_path / "theirs", "refunds", "Pays back.\nlicense: MIT", scripts__run_py=RUN)
    (made / "latin.txt").write_bytes(b"\xe4\r\n")
    program = {"command": sys.executable, "args": ["-c", FASTMCP, str(tmp_path / "theirs")]}
    servers = {"far": {**program, "skills": True, "connect_timeout": 120}}
    agent = make_agent([LOAD, SCRIPT, "done"], mcp_servers=servers)
    agent.say("go")
    agent.answer(APPROVE)
    assert "ran in here" in agent.results("run_script")[0]
