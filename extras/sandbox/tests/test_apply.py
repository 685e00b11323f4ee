"""Changes that are applied to a real folder, and taken back: what a person finds there."""

from pathlib import Path

import pytest

from extras.sandbox.tests.real_trees import FIFO, Tree, run_in, shape

HELD: Tree = {"kept": 0o755, "kept/other.txt": b"other"}
CASES: dict[str, tuple[Tree, Tree]] = {
    "file added": ({}, {"a": b"new"}),
    "file changed": ({"a": b"old"}, {"a": b"new"}),
    "file emptied": ({"a": b"old"}, {"a": b""}),
    "file removed": ({"a": b"old"}, {}),
    "executable added": ({}, {"a": b"#!new"}),
    "file becomes executable": ({"a": b"old"}, {"a": b"#!new"}),
    "executable becomes a file": ({"a": b"#!old"}, {"a": b"new"}),
    "executable removed": ({"a": b"#!old"}, {}),
    "link added": ({}, {"a": "kept/other.txt"}),
    "link changed": ({"a": "/nowhere"}, {"a": "kept"}),
    "link removed": ({"a": "kept"}, {}),
    "folder added": ({}, {"a": 0o750}),
    "folder changed": ({"a": 0o755}, {"a": 0o700}),
    "folder removed": ({"a": 0o755}, {}),
    "special removed": ({"a": FIFO}, {}),
    "folders added in one another": ({}, {"a": 0o755, "a/b": 0o711, "a/b/c": b"new", "a/d": b"new"}),
    "folder with content removed": ({"a": 0o750, "a/b": 0o711, "a/b/c": b"old", "a/l": "b", "a/f": FIFO}, {}),
    "file becomes a link": ({"a": b"old"}, {"a": "kept"}),
    "link becomes a file": ({"a": "kept/other.txt"}, {"a": b"new"}),
    "file becomes a folder": ({"a": b"old"}, {"a": 0o755, "a/b": b"new"}),
    "folder becomes a file": ({"a": 0o755, "a/b": 0o755, "a/b/c": b"old"}, {"a": b"new"}),
    "link becomes a folder": ({"a": "kept"}, {"a": 0o755, "a/other.txt": b"new"}),
    "folder becomes a link": ({"a": 0o755, "a/other.txt": b"old"}, {"a": "kept"}),
    "special becomes a file": ({"a": FIFO}, {"a": b"new"}),
    "folder that nobody may write to added": ({}, {"a": 0o555, "a/b": 0o500, "a/b/c": b"new"}),
    "names of every kind": (
        {"-rf": b"old", "a\nb": b"old", "\udcff\udcfe": b"old"},
        {
            "-rf": b"new",
            "a\nb": b"new",
            "\udcff\udcfe": b"new",
            " ": b"new",
            "é\u202e": "\udcff",
            "x" * 255: b"",
        },
    ),
    "much at a time": (
        {"a": 0o755, "a/b": b"old", "c": b"old", "d": "c", "e": 0o755, "e/f": 0o755, "e/f/g": b"old"},
        {"a": b"new", "c": 0o711, "c/c": b"new", "d": b"new", "e": 0o700, "e/f": "g", "e/g": b"#!new"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_changes_are_applied_and_taken_back_to_the_byte(folder: Path, name: str, own: Path) -> None:
    before, after = CASES[name]
    run = run_in(folder, {**HELD, **before}, {**HELD, **after}, own=own)
    untouched, wanted = shape(run.workspace), shape(run.layer)

    assert run.apply() == []
    assert shape(run.workspace) == wanted
    assert shape(run.layer) == wanted  # what is in it can be looked at still
    last = run.applier.last()
    assert last
    assert (last.label, last.changes) == ("run.py", run.changes)

    assert run.applier.undo() == []
    assert shape(run.workspace) == untouched
    assert run.applier.last() is None
