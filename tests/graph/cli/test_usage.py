"""What the command line says of itself, and of mistakes."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.graph.cli.command_line import CommandLine


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine(tmp_path_factory.mktemp("usage"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["ask", "  "], "the question is empty"),
        (["ask"], "Missing argument 'QUESTION'"),
        (["ask", "x", "--yes", "run,everything"], "there is no kind 'everything'; kinds: read, run"),
        (["ask", "x", "--thread", "../x"], "use letters, digits"),
        (["ask", "x", "--skills-dir", "nowhere"], "'nowhere' does not exist"),
        (["resume", "t-1", "--message", "no"], "--message goes with --reject"),
        (["resume", "t-1", "--reject", "--approve"], "--approve and --reject are two answers"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["skils"], "Did you mean 'skills'?"),
        (["doctor"], "Did you mean 'skills doctor'?"),
        (["verify"], "Did you mean 'runs verify' or 'skills verify'?"),
        (["skills", "lst"], "Did you mean 'list'?"),
        (["skills", "new", "Not_A_Name"], "lowercase letters and digits"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(cli: CommandLine, arguments: list[str], text: str) -> None:
    done = cli.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert text in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("group", ["", "skills", "threads", "runs", "grants"])
def test_a_group_without_a_command_prints_its_help(cli: CommandLine, group: str) -> None:
    words = group.split()
    assert cli.run(*words) == cli.run(*words, "--help")
    assert (cli.run(*words).code, cli.run(*words).err) == (0, "")


def test_an_unknown_variable_of_the_environment_names_the_setting_that_is_near(cli: CommandLine) -> None:
    done = cli.run("skills", "list", SKILLS_AGENT_SKILL_ROOTS="/x")
    assert done.code == 1
    assert "Unknown setting skill_roots (from environment variable SKILLS_AGENT_SKILL_ROOTS)" in done.err
    assert "Did you mean skills_dirs?" in done.err


def test_an_unknown_thread_is_an_error_that_names_the_known_ones(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)  # of its own: other tests make threads in the shared one
    cli.run("ask", "Hello?", "--thread", "hello", "--model", cli.script("Hello."))
    for command in (["resume", "nobody"], ["threads", "show", "nobody"]):
        done = cli.run(*command)
        assert (done.code, done.out) == (1, "")
        assert done.err == "error: There is no thread 'nobody' here. Threads: hello.\n"


def test_a_bad_config_file_is_one_line(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    cli.write_users_settings("max_model_call = 3")
    for command in (["ask", "x"], ["skills", "list"]):
        done = cli.run(*command)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("error: Unknown setting max_model_call")
        assert "Did you mean max_model_calls?" in done.err
        assert done.err.count("\n") == 1


def test_a_model_without_its_key_is_one_line(cli: CommandLine) -> None:
    done = cli.run("ask", "x", "--model", "openai:gpt-5-mini")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: The model openai:gpt-5-mini needs a key: set OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["skills", "show", "nope"], "unknown-skill"),
        (["grants", "list"], "usage"),
        (["ask", "x", "--model", "nope"], "model-unknown"),
    ],
)
def test_with_json_an_error_is_one_json_value_too(cli: CommandLine, words: list[str], code: str) -> None:
    done = cli.run(*words, "--json")
    told = json.loads(done.out)["error"]
    assert (told["code"], done.err) == (code, f"error: {told['message']}\n")
    assert cli.run(*words).out == ""


def test_with_json_a_turn_that_failed_is_one_json_value(cli: CommandLine) -> None:
    done = cli.run("ask", "x", "--model", cli.script(), "--json")
    assert (done.code, json.loads(done.out)["thread"][:2]) == (1, "t-")


def test_threads_that_cannot_be_kept_are_one_line(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    cli.run("ask", "x", "--model", cli.script("y"))
    (cli.state / "threads.sqlite").write_text("this is no database, and long enough to be one" * 20)
    done = cli.run("ask", "x")
    assert done.code == 1
    assert done.err.startswith("error: Cannot keep threads in")


def test_the_version_is_that_of_the_package(cli: CommandLine) -> None:
    assert cli.run("--version").out == f"skills-agent {version('skills-agent')}\n"


def test_click_is_known_to_the_command_line_alone() -> None:
    project = Path(__file__).parents[3]
    files = [
        path
        for folder in ("graph", "nodes", "skills", "state", "extras")
        for path in (project / folder).rglob("*.py")
    ]
    users = [
        path for path in files if re.search(r"^\s*(import|from) click\b", path.read_text(), re.MULTILINE)
    ]
    assert {path.parent for path in users if "tests" not in path.parts} == {
        project / "graph" / "cli",
        *(project / "extras").glob("*/commands"),
    }
