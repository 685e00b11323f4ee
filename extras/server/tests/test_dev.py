"""`skills-agent dev` starts LangGraph's server from nothing in a workspace that nobody trusts."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.graph.cli.command_line import CommandLine, Finished
from tests.machine import needs_part

SERVER = """
import json, os, sys
shown = sorted(path for path in os.listdir() if path != "workspace")
read = {path: open(path).read() for path in (".env", "src/agent.py") if os.path.exists(path)}
names = ("SKILLS_AGENT_WORKSPACE", "PATH", "PYTHONPATH", "PYTHONPYCACHEPREFIX")
given = {name: os.environ.get(name) for name in names}
print(json.dumps([os.getcwd(), sys.argv[1:], shown, read, given, sys.path]))
"""
OWN = '{"dependencies": ["."], "graphs": {"agent": "./src/agent.py:graph"}, "env": ".env"}'

pytest.importorskip("langgraph_api")


@pytest.fixture
def clone(tmp_path: Path) -> CommandLine:
    cli = CommandLine(tmp_path)
    for path, text in {".env": "A=1", "langgraph.json": OWN, "src/agent.py": "1", "src/more.py": "1"}.items():
        cli.write(path, text)
    for path in ("packages/langgraph_cli.py", "work/langgraph_cli.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(SERVER if path[0] == "p" else "raise SystemExit(9)")
    return cli


def dev(cli: CommandLine, *args: str) -> tuple[Finished, Any]:
    work, place = cli.workspace, cli.workspace.parent
    done = cli.run_process(
        *("dev", "--port", "2025", *args),
        PYTHONPATH=f"{place}/packages:{work}",
        PATH=f"{work}/bin:bin::{os.environ['PATH']}",
        XDG_STATE_HOME="",
    )
    return done, json.loads(done.out) if done.code == 0 else None


def test_the_server_of_a_clone_starts_from_nothing_in_it(clone: CommandLine) -> None:
    (clone.workspace / "bin").mkdir()
    done, (folder, arguments, shown, read, environment, modules) = dev(clone)
    assert Path(folder).is_relative_to(clone.home)
    assert (Path(folder).stat().st_mode & 0o077, shown, read) == (0, [], {})
    config = Path(arguments[arguments.index("--config") + 1])
    assert "agent" in json.loads(config.read_text())["graphs"]
    assert not config.is_relative_to(clone.workspace)
    assert arguments[-2:] == ["--port", "2025"]
    assert environment["SKILLS_AGENT_WORKSPACE"] == str(clone.workspace)
    searched = (*environment["PATH"].split(":"), *environment["PYTHONPATH"].split(":"), *modules)
    assert not {"", ".", "bin"} & {*searched}
    assert str(clone.workspace) not in " ".join(searched)
    (line,) = [each for each in done.errors.splitlines() if "Not read" in each]
    assert ("(skills-agent trust)" in line, " is not trusted" in line) == (True, True)
    assert dev(clone, "--config", str(clone.workspace / "langgraph.json"))[0].code == 2
    wrong = clone.run_process("dev", SKILLS_AGENT_EXCLUDE_TOOLS="writ_file", XDG_STATE_HOME="")
    assert (wrong.code, wrong.errors.splitlines()[-1].count("Did you mean write_file?")) == (1, 1)


@needs_part("mcp")
def test_what_the_server_starts_from_counts_while_it_is_as_it_was_trusted(clone: CommandLine) -> None:
    for path, text in {"langgraph.json": OWN + " ", "src/json.py": ""}.items():
        assert clone.run("trust", XDG_STATE_HOME="").code == 0
        done, (folder, arguments, shown, read, environment, _) = dev(clone)
        assert (shown, read) == ([".env", "langgraph.json", "src"], {".env": "A=1", "src/agent.py": "1"})
        assert arguments[arguments.index("--config") + 1] == "langgraph.json"
        assert environment["PYTHONPYCACHEPREFIX"].startswith(str(clone.home))
        assert "Not read" not in done.err
        clone.write(path, text)
        done, (_, _, shown, _, _, _) = dev(clone)
        assert (shown, "has changed" in done.err) == ([], True), path
    (Path(folder) / ".env").write_text("MINE=1")  # the person's own, which stays
    clone.run("trust", XDG_STATE_HOME="")
    assert dev(clone)[1][3][".env"] == "MINE=1"
