"""`skills-agent studio` starts LangGraph's server where no repository and no script writes."""

import json
from pathlib import Path

import pytest

from tests.graph.cli.command_line import CommandLine

SERVER = """
import json, os, sys
print(json.dumps([os.getcwd(), os.environ["SKILLS_AGENT_WORKSPACE"], sys.argv[1:]]))
"""


def test_the_server_of_a_workspace_starts_in_a_folder_of_the_user(tmp_path: Path) -> None:
    pytest.importorskip("langgraph_api")
    cli = CommandLine(tmp_path)
    (cli.workspace / "langgraph.json").write_text("{}")
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/langgraph_cli.py").write_text(SERVER)

    started = cli.run_process(
        "studio", "--port", "2025", PYTHONPATH=f"{tmp_path}/packages", XDG_STATE_HOME=""
    )

    folder, workspace, arguments = json.loads(started.out)
    assert Path(folder).is_relative_to(cli.home)
    assert not Path(folder).is_relative_to(cli.workspace)
    assert Path(folder).stat().st_mode & 0o077 == 0
    assert workspace == str(cli.workspace)
    config = Path(arguments[arguments.index("--config") + 1])
    assert "agent" in json.loads(config.read_text())["graphs"]
    assert not config.is_relative_to(cli.workspace)
    assert arguments[-2:] == ["--port", "2025"]
