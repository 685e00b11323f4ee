"""What the command line says of itself and of mistakes, and what a process of it does to begin."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from skills_agent.graph.hooks import extras
from tests.graph.cli.command_line import CommandLine
from tests.machine import needs_part

IMPORTED = """
import sys
from skills_agent.graph.cli.main import main
for words in {commands}:
    sys.argv = ["skills-agent", *words]
    try:
        main()
    except SystemExit:
        pass
print("IMPORTED", *sorted(set({names}) & set(sys.modules)))
"""
SLOW = (*("langgraph", "langchain_core", "langchain_openai", "openai", "pydantic", "rich", "prompt_toolkit"),)
ONLY_FOR_A_LOAD = ("skills_agent.skills.library.snapshots", "skills_agent.sources.store")


@pytest.mark.parametrize(
    ("words", "code", "fact"),
    [
        (["ask", "  "], 2, "empty"),
        (["ask"], 2, "QUESTION"),
        (["ask", "x", "--yes", "run,everything"], 2, "'everything'; kinds: read, run"),
        (["ask", "x", "--thread", "../x"], 2, "letters, digits"),
        (["ask", "x", "--skills-dir", "nowhere"], 2, "'nowhere'"),
        (["ask", "x", "--workspace"], 2, "requires an argument"),
        (["ask", "x", "-c", "--thread", "t"], 2, "--continue"),
        (["ask", "-c", "x"], 1, "skills-agent ask"),
        (["ask", "x", "--model", "openai:gpt-5-mini"], 1, "OPENAI_API_KEY"),
        (["--model", "gpt-5", "ask", "x"], 1, "Did you mean openai:gpt-5?"),
        (["ask", "x", "--model", "ofline"], 1, "Did you mean offline?"),
        (["resume", "t-1", "--approve", "--message", "no"], 2, "--message"),
        (["resume", "t-1", "--reject", "--always", "skill"], 2, "--always"),
        (["resume", "t-1", "--attempt", "1"], 2, "--attempt"),
        (["resume", "--approve"], 1, "No thread waits"),
        (["frobnicate"], 2, "'frobnicate'"),
        (["threads", "lnt"], 2, "'skills lint'"),
        (["skills", "lst"], 2, "'skills list'"),
        (["skills", "uninstall", "x"], 2, "'skills remove'"),
        (["skills", "lint", "nowhere"], 1, "'nowhere'"),
        *(
            pytest.param(words.split(), 2, fact, marks=needs_part("packages"))
            for words, fact in (
                ("publish pack . ..", "--sign"),
                ("publish pack . --sign -o x.skill", "--output"),
                ("skills update x y --rollback", "one NAME"),
                ("skills update x --version 4f", "--rollback"),
            )
        ),
        (["threads", "record", "t.1"], 1, "'t.1'"),
        (["skills", "new", "Not_A_Name"], 2, "lowercase letters and digits"),
        (["skills", "show", "nothing"], 1, "Known skills"),
        (["threads", "show", "nobody"], 1, "'nobody'"),
        (["threads", "delete"], 2, "--older-than"),
        (["threads", "delete", "--older-than", "30 days"], 1, "30d"),
        (["threads", "delete", "--older-than", "999999w"], 1, "1h to 99999w"),
        (["threads", "delete", "nobody", "--yes"], 1, "'nobody'"),
        (["trust"], 1, "/work: no skill"),
        (["trust", "--revoke"], 1, "trust --list"),
        (["trust", ".", "--list"], 2, "alone"),
        (["trust", "nowhere"], 2, "nowhere"),
    ],
)
def test_a_mistake_is_one_line_with_its_exit_code(
    cli: CommandLine, words: list[str], code: int, fact: str
) -> None:
    done = cli.run(*words)
    assert (done.code, done.out, done.err[:7], done.err.count("\n")) == (code, "", "error: ", 1)
    assert fact in done.err


def test_options_of_all_commands_stand_before_a_command_or_behind_it(
    cli: CommandLine, tmp_path: Path
) -> None:
    (other := tmp_path / "other").mkdir()
    chosen = ["--workspace", str(other), f"--skills-dir={cli.write_skill()}"]
    before = cli.run(*chosen, "--json", "skills", "list")
    assert before == cli.run("skills", "list", *chosen, "--json")
    assert "rain-gauge" in before.out
    assert cli.run("skills", "new", "tide", *chosen).code == 0
    assert (other / ".agent" / "skills" / "tide").is_dir()
    assert cli.run("ask", "--model", "offline", "--", "--workspace").code == 0
    assert cli.run("--version").out == f"skills-agent {version('skills-agent')}\n"


def test_with_json_an_error_is_one_json_value_too(cli: CommandLine) -> None:
    for words, code in (("skills show nope", "unknown-skill"), ("threads show", "thread-unusable")):
        done = cli.run(*words.split(), "--json")
        told = json.loads(done.out)["error"]
        assert (told["code"], done.err) == (code, f"error: {told['message']}\n")
    done = cli.run("ask", "x", SKILLS_AGENT_SKILL_DIRS="/x")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "SKILLS_AGENT_SKILL_DIRS). Did you mean skills_dirs?" in done.err


def test_threads_that_cannot_be_kept_are_one_line(cli: CommandLine) -> None:
    cli.run("ask", "x", "--model", cli.script("y"))
    (cli.state / "threads.sqlite").write_text("this is no database, and long enough to be one" * 20)
    done = cli.run("ask", "x")
    assert (done.code, done.err[:31]) == (1, "error: Cannot keep threads in /")


def test_click_is_known_to_the_command_line_alone() -> None:
    project = Path(__file__).parents[3]
    parts = ("graph", "nodes", "skills", "state", "extras")
    files = [path for part in parts for path in (project / part).rglob("*.py") if "tests" not in path.parts]
    users = {each.parent for each in files if re.search(r"(?m)^\s*(import|from) click\b", each.read_text())}
    assert users == {project / "graph" / "cli", *(project / "extras").glob("*/commands")}


@pytest.mark.parametrize(
    ("commands", "names"),
    [
        ([["skills", "list"]], (*SLOW, *ONLY_FOR_A_LOAD, "skills_agent.skills.search.words", "sqlite3")),
        ([*map(str.split, ("skills search table", "skills lint .", "doctor", "trust --list"))], SLOW),
        ([["threads", "record"], ["ask", " "]], SLOW),
        ([["-h"]], (*SLOW, "msgspec", "skills_agent.graph.settings", "skills_agent.graph.cli.ask")),
        ([["chat", "--model", "offline"]], ("prompt_toolkit",)),
    ],
    ids=str,
)
def test_a_command_imports_nothing_slow_that_it_does_not_need(
    cli: CommandLine, commands: list[list[str]], names: tuple[str, ...]
) -> None:
    program = IMPORTED.format(commands=commands, names=names)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cli.workspace,
        env=cli.environment({}),
        input="Hello\n",
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "IMPORTED", done.stderr


@pytest.mark.parametrize(("group", "name"), [("", "doctor"), ("skills", "show")])
def test_a_group_alone_prints_its_help_in_whole_sentences(cli: CommandLine, group: str, name: str) -> None:
    words, narrow = group.split(), {"COLUMNS": "60"}
    code, shown, errors = cli.run_process(*words, **narrow)
    assert (code, shown, errors) == (0, cli.run_process(*words, "--help", **narrow).out, "")
    assert max(map(len, shown.splitlines())) <= 60
    rows = dict(re.findall(r"(?m)^  ([a-z]+) +(.*(?:\n {6,}.*)*)", shown.partition("Commands:\n")[2]))
    assert name in rows
    assert [text for text in rows.values() if not re.search(r"[^.]\.$", text)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("ask - <&-", 2, "empty"),
        ("skills list >&- 2>&-", 0, ""),
        ("ask Hello? --model offline > /dev/full", 1, "error: No space left on device"),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_traceback(
    cli: CommandLine, line: str, code: int, told: str
) -> None:
    done = in_a_shell(cli, line)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert told in done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.slow
@pytest.mark.parametrize("line", ["ask Hello?", 'chat --workspace "$OLDPWD" < /dev/null'])
def test_a_current_folder_that_is_gone_is_a_sentence(cli: CommandLine, line: str) -> None:
    done = in_a_shell(cli, line, before="mkdir gone; cd gone; rmdir ../gone;")
    assert (done.returncode, done.stderr[:29]) == (1, "error: The current folder is ")


@pytest.mark.slow
def test_a_turn_whose_reader_went_away_says_how_to_go_on(cli: CommandLine) -> None:
    done = in_a_shell(cli, "ask -v Hello? --model offline --thread cut | head -1")
    assert done.stderr.endswith("skills-agent resume cut\n")
    assert "Offline model" in in_a_shell(cli, "resume cut").stdout


def in_a_shell(cli: CommandLine, line: str, before: str = "") -> subprocess.CompletedProcess[str]:
    program = ["bash", "-c", f"{before} '{sys.executable}' -m skills_agent.graph.cli.main {line}"]
    here: dict[str, Any] = {"cwd": cli.workspace, "env": cli.environment({}), "stdin": subprocess.DEVNULL}
    return subprocess.run(program, capture_output=True, text=True, timeout=60, **here)


def test_a_command_of_a_part_that_is_not_installed_says_so(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = {words: extra.name for extra in extras() for words in extra.commands if words != "publish"}
    monkeypatch.setattr("skills_agent.graph.cli.lazy.extras", tuple)
    for words, name in brought.items():
        done = cli.run(*words.split())
        assert (done.code, "comes with the part " in done.err, name in done.err) == (1, True, True), done
    monkeypatch.setattr("skills_agent.graph.hooks.first", lambda _: None)
    assert "What a skill needs comes with the part needs, which" in cli.run("doctor", "rain").err
