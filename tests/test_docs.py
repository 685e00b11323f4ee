"""What the documentation says of the code is what the code says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from skills_agent.shell.git_commands import WRITES
from skills_agent.shell.reading import WRITING_OPTIONS
from skills_agent.skills.policy.command_patterns import ANY
from skills_agent.skills.policy.patterns import GRAMMAR, Entry

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


@pytest.mark.slow
def test_the_generated_tables_are_those_of_the_code() -> None:
    generate = DOCS / "generate.py"
    done = subprocess.run([sys.executable, generate, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_guarantee_names_tests_that_exist() -> None:
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*.*\| (.*) \|$", text, re.MULTILINE)
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            assert re.search(rf"^(async )?def {test}\(", (DOCS.parent / file).read_text(), re.MULTILINE), test


def test_every_link_leads_somewhere() -> None:
    links = [(page, *link) for page in _pages() for link in _links(page)]
    assert len(links) > 100
    lost = [
        f"{page.relative_to(ROOT)}: {path}#{anchor}"
        for page, path, anchor in links
        for target in [(page.parent / path).resolve() if path else page]
        if not target.exists() or (anchor and anchor not in _anchors(target))
    ]
    assert lost == []


def _pages() -> list[Path]:
    folders = (ROOT / name for name in ("graph", "nodes", "skills", "state", "extras", "examples", "tests"))
    readmes = (page for folder in folders for page in folder.rglob("README.md"))
    return [ROOT / "README.md", *DOCS.glob("*.md"), *readmes]


def _links(page: Path) -> list[tuple[str, str]]:
    found = re.findall(r"\]\(([^)\s#:]*)(?:#([\w-]+))?\)", _prose(page))
    return [(path, anchor) for path, anchor in found if path or anchor]


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_the_patterns_of_the_docs_are_understood_and_reading_ones_write_nothing() -> None:
    pages = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
    texts = {
        found
        for page in pages
        for found in re.findall(
            r"(?<![\w-])(?:Bash|run_command)\([^`()]*\)", page.read_text(encoding="utf-8")
        )
    }
    wide = [entry for entry in map(GRAMMAR.parse, texts) if entry.command and entry.command[-1] == ANY]
    reading = [entry for entry in wide if _reads(*(entry.command or ()))]
    assert {"Bash(git diff:*)", "run_command(git log:*)"} <= {entry.text for entry in reading}
    for entry in reading:
        plain = " ".join((entry.command or ())[:-1])
        assert _permits(entry, f"{plain} -3 x")
        for option in WRITING_OPTIONS[plain.split()[0]]:
            for written in (f"{option}=x", f"{option} x", f"x {option[:5]}=x", "$X", "*.md"):
                assert not _permits(entry, f"{plain} {written}"), (entry.text, written)


def _reads(program: str, second: str = ANY, *_: str) -> bool:
    return program in WRITING_OPTIONS and (program != "git" or second not in {ANY, *WRITES})


def _permits(entry: Entry, command: str) -> bool:
    return entry.permits(GRAMMAR.call("run_command", {"command": command}))
