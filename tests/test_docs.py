"""What the documentation says of the code is what the code says."""

import re
import subprocess
import sys
from pathlib import Path

from skills_agent.skills.policy.tool_names import OTHER_CLIENTS

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_the_table_of_names_of_other_clients_is_the_one_in_the_code() -> None:
    told: dict[str, set[str]] = {}
    section = (DOCS / "policy.md").read_text(encoding="utf-8").partition("| here |")[2].partition("\n\n")[0]
    for line in section.splitlines()[2:]:
        ours, theirs = (cell.strip() for cell in line.split("|")[1:3])
        for name in theirs.split(", "):
            told.setdefault(name.lower(), set()).update(re.findall(r"`(\w+)`", ours))

    web = {"webfetch": {"web_fetch"}, "websearch": {"web_search"}}
    assert {**told, **web} == {name: set(ours) for name, ours in OTHER_CLIENTS.items()}


def test_the_generated_tables_are_those_of_the_code() -> None:
    generate = DOCS / "generate.py"
    done = subprocess.run([sys.executable, generate, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_promise_names_tests_that_exist() -> None:
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    promises = re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)

    assert promises == [str(number) for number in range(1, 11)]
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", (DOCS.parent / file).read_text(), re.MULTILINE), test
