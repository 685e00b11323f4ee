"""What the documentation says of the code is what the code says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.slow
def test_the_generated_tables_are_those_of_the_code() -> None:
    generate = DOCS / "generate.py"
    done = subprocess.run([sys.executable, generate, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_of_the_server_shows_the_file_that_is_there() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", (DOCS / "server.md").read_text(), re.DOTALL)
    assert shown == (DOCS.parent / "langgraph.server.json").read_text()


def test_the_file_that_the_docs_make_is_that_of_the_repository() -> None:
    (shown,) = re.findall(r"<<'END'\n(.*?)\nEND", (DOCS / "server.md").read_text(), re.DOTALL)
    made, kept = json.loads(shown), json.loads((DOCS.parent / "langgraph.json").read_text())
    assert made["http"] == kept["http"]
    assert made["graphs"]["agent"] == kept["graphs"]["agent"]["path"]


def test_every_promise_names_tests_that_exist() -> None:
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    promises = re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)

    assert named
    assert promises == [str(number) for number in range(1, len(promises) + 1)]
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", (DOCS.parent / file).read_text(), re.MULTILINE), test
