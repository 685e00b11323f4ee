"""text-stats: real processes on prose, Markdown and logs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "skills" / "bundled" / "text-stats" / "scripts" / "stats.py"
PLAIN = (
    "The boat was old. We took it out on the lake when the wind was low, and we came back before dark. "
    "She had a book with her. He had nothing but his hat. In the end they all said that it was a good day. "
)


def run(folder: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script as the agent does."""
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        input=stdin or "",
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"},
        timeout=60,
    )


def stats(folder: Path, content: str | bytes, name: str = "x.txt", *arguments: str) -> dict[str, Any]:
    """Write a file and return its figures."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run(folder, name, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found[0]


def test_words_sentences_paragraphs_and_lines_are_counted(tmp_path: Path) -> None:
    found = stats(tmp_path, "One two three. Four five!\nSix?\n\nSeven don't e-mail 3.5.\n")
    assert (found["words"], found["sentences"], found["paragraphs"], found["lines"]) == (10, 4, 2, 4)


def test_readability_is_flesch(tmp_path: Path) -> None:
    found = stats(tmp_path, PLAIN * 4)
    assert found["readability"]["words"] in {"easy", "very easy"}
    assert found["readability"]["ease"] > 80
    assert found["reading_minutes"] == 1


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("\ufeffcafé".encode(), "utf-8"),
        ("café".encode("cp1252"), "cp1252"),
        (b"caf\xe9 \x81", "latin-1"),
        ("café".encode("utf-16"), "utf-16"),
    ],
)
def test_encodings(tmp_path: Path, content: bytes, encoding: str) -> None:
    found = stats(tmp_path, content)
    assert (found["encoding"], found["terms"][0][0]) == (encoding, "café")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\0\1\2")
    done = run(tmp_path, "x.bin")
    assert done.returncode == 1
    assert "not text" in done.stderr


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("# a\x1b[31m\n\nb\u202e c.\n", encoding="utf-8")
    out = run(tmp_path, "x.md").stdout
    assert "\x1b" not in out
    assert "\u202e" not in out
