"""What is shipped, and how it is found."""

import json
import os
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
PARTS = ("graph", "nodes", "skills", "state")


def test_every_folder_with_code_is_a_listed_package() -> None:
    listed = set(tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {
        "skills_agent." + ".".join(path.parent.relative_to(root).parts)
        for root, part in [*((PROJECT, part) for part in PARTS), (PROJECT / "extras", ".")]
        for path in (root / part).rglob("*/__init__.py" if part == "." else "__init__.py")
        if not {"bundled", "tests"} & {*path.parts}
    }
    assert listed == found


def test_evals_of_the_bundled_skills_stay_with_the_source() -> None:
    setup = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = setup["exclude-package-data"]["*"]  # for setuptools a `*` is any text, also one with `/`
    files = [path for path in (PROJECT / "skills" / "bundled").glob("*/**/*") if path.is_file()]
    names = {path: path.relative_to(PROJECT / "skills").as_posix() for path in files}
    left_out = {path for path in files if any(fnmatch(names[path], each) for each in patterns)}
    evals = {path for path in files if "evals" in path.parts}
    assert evals
    assert left_out - {path for path in files if "__pycache__" in path.parts} == evals


@pytest.mark.parametrize("file", ["langgraph.json", "langgraph.server.json"])
def test_langgraph_json_names_the_graph_by_module_path(file: str) -> None:
    config = json.loads((PROJECT / file).read_text())
    module, _, name = config["graphs"]["agent"]["path"].partition(":")
    assert getattr(import_module(module), name).checkpointer is None
    assert config["graphs"]["agent"]["description"]


@pytest.mark.slow
@pytest.mark.parametrize("file", ["langgraph.json", "langgraph.server.json"])
def test_langgraph_validate_and_dockerfile_pass(tmp_path: Path, file: str) -> None:
    environment = {**os.environ, "LANGGRAPH_NO_VERSION_CHECK": "true", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    langgraph = Path(sys.executable).with_name("langgraph")
    for arguments in (["validate", "-c", file], ["dockerfile", "-c", file, str(tmp_path / "Dockerfile")]):
        done = subprocess.run(
            [langgraph, *arguments], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Unknown key" not in done.stdout + done.stderr
    written = (tmp_path / "Dockerfile").read_text()
    assert '{"agent": ' in written.replace("'", "")
    assert "skills_agent.graph.app:graph" in written


@pytest.mark.parametrize("module", ["skills_agent.graph.settings", "skills_agent.skills.library.registry"])
def test_the_domain_is_imported_without_langgraph(module: str) -> None:
    probe = (
        f"import sys, {module}; print(sorted(m for m in sys.modules if m.startswith(('lang', 'pydantic'))))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_importing_does_nothing_visible(tmp_path: Path) -> None:
    probe = "import skills_agent.graph.build, skills_agent.graph"
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout + done.stderr == ""
    assert list(tmp_path.iterdir()) == []
