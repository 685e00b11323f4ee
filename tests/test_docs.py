"""What the documentation says of the code is what the code says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


@pytest.mark.slow
def test_the_generated_tables_are_those_of_the_code() -> None:
    generate = DOCS / "generate.py"
    done = subprocess.run([sys.executable, generate, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_pictures_are_those_of_real_runs(tmp_path: Path) -> None:
    draw = [sys.executable, str(DOCS / "pictures.py"), str(tmp_path)]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(draw, env={**os.environ, "PATH": path}, check=True, timeout=120)
    kept = DOCS / "pictures" / "graph.svg"
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == kept.read_text(encoding="utf-8")
    session = (tmp_path / "session.svg").read_text(encoding="utf-8")
    assert "total&#160;of&#160;amount:&#160;7" in session
    assert "@font-face" not in session


def test_every_guarantee_names_tests_that_exist() -> None:
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*.*\| (.*) \|$", text, re.MULTILINE)
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            if _is_taken_away(ROOT / file):
                continue
            assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), test


def test_every_link_leads_somewhere() -> None:
    links = [(page, *link) for page in _pages() for link in _links(page)]
    assert len(links) > 100
    lost = [
        f"{page.relative_to(ROOT)}: {path}#{anchor}"
        for page, path, anchor in links
        for target in [(page.parent / path).resolve() if path else page]
        if not _is_taken_away(target)
        if not target.exists() or (anchor and anchor not in _anchors(target))
    ]
    assert lost == []


def _is_taken_away(target: Path) -> bool:
    """Return whether a link leads to a part that is not here: `make without X`."""
    parts = ROOT / "extras"
    is_inside = target.is_relative_to(parts) and target != parts
    return is_inside and not (parts / target.relative_to(parts).parts[0]).exists()


def _pages() -> list[Path]:
    folders = (ROOT / name for name in ("graph", "nodes", "skills", "state", "extras", "examples", "tests"))
    readmes = (page for folder in folders for page in folder.rglob("README.md"))
    return [ROOT / "README.md", *DOCS.rglob("*.md"), *readmes]


def _links(page: Path) -> list[tuple[str, str]]:
    found = re.findall(r"\]\(([^)\s#:]*)(?:#([\w-]+))?\)", _prose(page))
    return [(path, anchor) for path, anchor in found if path or anchor]


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
