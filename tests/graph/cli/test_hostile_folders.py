"""A bad folder never hides a good skill, ends a command in a traceback, hangs it, or reaches the model."""

import json
from pathlib import Path

import pytest

from tests.agents import call, calls
from tests.graph.cli.command_line import CommandLine
from tests.graph.cli.hostile_folders import HOSTILE, put

LARGE = {"three-thousand-files", "huge-instructions", "one-huge-line"}
"""They are tried alone."""
LOOK = ("list_dir", {"path": ".agent/skills"}), ("grep", {"pattern": "evil"})


def make(cli: CommandLine, *names: str) -> Path:
    """Put a good skill and hostile folders beside it into the workspace."""
    root = cli.workspace / ".agent/skills"
    put(root / "good", "good", "Does good.")
    for name in names:
        place = root / name if len(names) > 1 else root
        place.mkdir(exist_ok=True)
        HOSTILE[name](place)
    return root


def check(cli: CommandLine, root: Path, *, whole: bool) -> None:
    """Run one turn with skills, and the commands that read their files; `whole`: what shows them, too."""
    listed = cli.run("skills", "list", "--json").value
    shown = [entry for entry in listed if entry["status"] == "shown"]
    (good,) = [entry for entry in shown if entry["name"] == "good"]
    assert good["path"] == str(root / "good/SKILL.md")
    report = cli.run("skills", "lint", str(root), "--json").value
    assert str(root / "good/SKILL.md") in report["skills"]
    others = [entry["name"] for entry in shown if entry["source"] == "project" and entry is not good][:1]
    loads = [call("load_skill", name=each) for each in others]
    replies = cli.script(calls(*(call(name, **args) for name, args in LOOK), *loads), "done")
    answer = cli.run("ask", "go", "--skill", "good", "--model", replies, "--json")
    assert answer.code == 0, answer
    assert answer.value["answer"] == "done"
    assert "good" in answer.value["loaded"]
    trusted = cli.run("trust", str(root))
    assert trusted.code == 0 or trusted.err.startswith("error: ")
    texts = [trusted.out, trusted.err, answer.out, json.dumps(listed), json.dumps(report)]
    if whole:
        thread = answer.value["thread"]
        showing = (
            ["skills", "list"],
            ["doctor"],
            ["trust"],
            ["trust", "--list"],
            ["threads", "show", thread],
        )
        texts += [cli.run(*words).out for words in (*showing, ["threads", "record", f"{thread}.1"])]
    for text in texts:
        assert "\x1b" not in text
        assert not [each for each in text if "\ud800" <= each <= "\udfff"]
    assert "\\ud" not in answer.out


def test_all_hostile_folders_together_hide_no_good_skill(cli: CommandLine) -> None:
    check(cli, make(cli, *sorted(HOSTILE.keys() - LARGE)), whole=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_hides_no_good_skill(cli: CommandLine, name: str) -> None:
    check(cli, make(cli, name), whole=name in LARGE)
