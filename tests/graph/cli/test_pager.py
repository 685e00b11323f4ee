"""A person looks at everything in a pager: theirs, and not one that a repository has."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = (
    "import sys; from pathlib import Path; from skills_agent.graph.cli.printing import page\n"
    "page('all of it\\n', Path(sys.argv[1]))"
)


def spy(folder: Path, name: str, witness: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ntouch {witness}\ncat\n")
    (folder / name).chmod(0o755)


def shown(workspace: Path, **environment: str) -> str:
    """Return what a terminal gets."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb"):
        subprocess.run(
            [sys.executable, "-c", SHOW, str(workspace)],
            stdin=theirs,
            stdout=theirs,
            cwd=workspace,
            env={**os.environ, **environment},
            check=True,
        )
        text = os.read(ours, 10_000).decode()
        os.close(theirs)
    return text


@pytest.mark.parametrize("entry", ["{work}/.venv/bin", ".", ".venv/bin"])
@pytest.mark.parametrize("pager", ["", "less", "own-pager -x"])
@pytest.mark.variants
def test_a_pager_of_the_workspace_never_runs(tmp_path: Path, entry: str, pager: str) -> None:
    workspace = tmp_path / "work"
    for name in ("less", "own-pager"):
        spy(workspace / ".venv/bin", name, tmp_path / "pwned")
        spy(workspace, name, tmp_path / "pwned")

    text = shown(workspace, PATH=entry.format(work=workspace), PAGER=pager)

    assert text == "all of it\r\n"
    assert not (tmp_path / "pwned").exists()


def test_the_persons_pager_runs(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    spy(tmp_path / "bin", "own-pager", tmp_path / "ran")

    text = shown(tmp_path / "work", PATH=f"{tmp_path}/bin:/usr/bin:/bin", PAGER="own-pager -x")

    assert text == "all of it\r\n"
    assert (tmp_path / "ran").exists()
