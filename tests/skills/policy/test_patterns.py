"""Entries of allowed-tools: what they permit, what slips through them (nothing), and what they forbid."""

import pytest

from skills_agent.skills.policy.patterns import GRAMMAR, Call, EntryNotUnderstoodError, Grammar
from skills_agent.skills.policy.tool_spec import ToolSpec


def script(path: str, *args: str, skill: str = "alpha") -> Call:
    return GRAMMAR.call("run_script", {"skill": skill, "path": path, "args": list(args)})


def file(tool: str, path: str) -> Call:
    return GRAMMAR.call(tool, {"path": path})


@pytest.mark.parametrize(
    ("entry", "tools"),
    [
        ("Read", {"read_file", "read_resource"}),
        ("Grep", {"grep"}),
        ("Glob", {"list_dir"}),
        ("LS", {"list_dir"}),
        ("Write", {"write_file"}),
        ("Edit", {"write_file"}),
        ("Bash", {"run_command", "run_script"}),
        ("Bash(*)", {"run_command", "run_script"}),
        ("run_shell_command", {"run_command", "run_script"}),
        ("WebFetch", {"web_fetch", "WebFetch"}),
        ("TodoWrite", {"update_plan"}),
        ("send_mail", {"send_mail"}),
    ],
)
def test_a_name_speaks_of_our_tools_and_of_one_of_that_name(entry: str, tools: set[str]) -> None:
    every = {"read_file", "read_resource", "grep", "list_dir", "write_file", "run_command", "run_script",
             "web_fetch", "WebFetch", "update_plan", "send_mail", "load_skill"}  # fmt: skip
    assert {tool for tool in every if GRAMMAR.parse(entry).permits(GRAMMAR.call(tool, {}))} == tools


@pytest.mark.parametrize(
    "entry",
    [
        "*", "", "stitch*:*", "Ba*", "Bash(", "Bash()", "Bash(:*)", "Bash(* --version)", "Bash(*git*)",
        "Bash(git*)", "Bash(git add . && git commit *)", "Bash(git log | head)", "Bash(git log > x)",
        "Bash(X=1 git *)", "Bash($HOME/x *)", "Bash(`x`)", "Bash(x${CLAUDE_SKILL_DIR}/x)",
        "Bash(${CLAUDE_SKILL_DIR}x)", "Bash(${CLAUDE_SKILL_DIR)", "Bash(${CLAUDE_SKILL_DIR}/../x)",
        "Bash(${CLAUDE_SKILL_DIR}/$HOME/x)", "Bash(git log 'a b')", "Bash(../x *)", "Bash(scripts/../../x)",
        "Bash(git\nrm)", "Read(/etc/*)", "Read(~/.ssh/*)", "Read(../*)", "Read(a/../../b)", "Read()",
        "run_script(scripts/x.py --flag)", "run_script({baseDir}/x.py)", "Write([a-z].txt)", "mcp__",
        "mcp__*", "mcp__*__x", "mcp__server(x)", "WebFetch(https://example.com)", "Task(Explore)",
        "Bash(git:*) x",
    ],
)  # fmt: skip
def test_an_entry_that_is_not_understood_grants_nothing_and_says_so(entry: str) -> None:
    assert GRAMMAR.understood([entry]) == ()
    with pytest.raises(EntryNotUnderstoodError, match="is not understood"):
        GRAMMAR.parse(entry)


def test_a_setting_that_names_the_folder_of_a_skill_is_not_understood() -> None:
    with pytest.raises(EntryNotUnderstoodError, match="has no skill"):
        GRAMMAR.parse_asked("Bash(${CLAUDE_SKILL_DIR}/x.py)")


@pytest.mark.parametrize(
    ("entry", "call", "permitted"),
    [
        ("run_script(scripts/*.py)", script("scripts/run.py"), True),
        ("run_script(scripts/*.py)", script("./scripts//run.py"), True),
        ("run_script(scripts/*.py)", script("scripts/run.sh"), False),
        ("run_script(scripts/*.py)", script("scripts/deep/run.py"), False),
        ("run_script(scripts/*.py)", script("scripts/../other/run.py"), False),
        ("run_script(scripts/*.py)", script("/scripts/run.py"), False),
        ("run_script(scripts/**)", script("scripts/deep/run.py"), True),
        ("run_script(run.py)", script("scripts/run.py"), True),
        ("Bash(python scripts/run.py:*)", script("scripts/run.py", "a"), True),
        ("Bash(python3 scripts/run.py *)", script("scripts/run.py"), True),
        ("Bash(python:*)", script("scripts/run.py"), True),
        ("Bash(node:*)", script("scripts/run.py"), False),
        ("Bash(scripts/run.py)", script("scripts/run.py"), True),
        ("Bash(scripts/run.py)", script("scripts/run.py", "more"), False),
        ("Bash(git:*)", script("scripts/git.py"), False),
        ("Bash(${CLAUDE_SKILL_DIR}/scripts/run.py:*)", script("scripts/run.py", "a"), True),
        ("Bash($CLAUDE_SKILL_DIR/scripts/*.py)", script("scripts/run.py"), True),
        ("Bash(python3 ${CLAUDE_SKILL_DIR}/scripts/run.py *)", script("scripts/run.py", "a"), True),
        ("Bash(bash ${CLAUDE_SKILL_DIR}/scripts/run.py)", script("scripts/run.py"), False),
        ("Bash(${CLAUDE_SKILL_DIR}/run.py)", script("scripts/run.py"), False),
        ("Bash(${CLAUDE_SKILL_DIR}/x.py)", script("${CLAUDE_PLUGIN_ROOT}/x.py"), False),
        ("Bash(${CLAUDE_PLUGIN_ROOT}/x.py:*)", script("${CLAUDE_PLUGIN_ROOT}/x.py", "a"), True),
        ("Bash(python3 $CLAUDE_PLUGIN_ROOT/x.py)", script("${CLAUDE_PLUGIN_ROOT}/x.py"), True),
        ("Bash(${CLAUDE_PLUGIN_ROOT}/x.py)", script("x.py"), False),
        ("Bash(${CLAUDE_PLUGIN_ROOT}/x.py)", script("${CLAUDE_PLUGIN_ROOT}/../x.py"), False),
        ("Read(docs/**)", file("read_file", "docs/a/b.md"), True),
        ("Read(docs/**)", file("read_file", "docs/../secret"), False),
        ("Read(docs/**)", file("read_file", "other/docs/x"), False),
        ("Read(*.md)", file("read_file", "a/b.md"), True),
        ("Read(*.md)", file("write_file", "a/b.md"), False),
        ("Write(out/*.txt)", file("write_file", "out/x.txt"), True),
        ("Write(out/*.txt)", file("write_file", "out/x.txt\0"), False),
        ("Write(out/*.txt)", file("write_file", "out/../x.txt"), False),
        ("Write(out/*.txt)", GRAMMAR.call("write_file", {"path": 3}), False),
        ("Write(out/*.txt)", GRAMMAR.call("write_file", {}), False),
        ("LS(src/**)", file("list_dir", "src"), True),
        ("mcp__db__*", GRAMMAR.call("mcp__db__query", {}), True),
        ("mcp__db", GRAMMAR.call("mcp__db__query", {}), True),
        ("mcp__db__get_*", GRAMMAR.call("mcp__db__drop", {}), False),
        ("mcp__db__*", GRAMMAR.call("mcp__dbx__query", {}), False),
    ],
)
def test_paths_scripts_and_servers(entry: str, call: Call, permitted: bool) -> None:
    assert GRAMMAR.parse(entry).permits(call) is permitted


@pytest.mark.parametrize("entry", ["run_script(scripts/*.py)", "Bash(python:*)", "Read(references/*)"])
def test_an_entry_with_an_argument_speaks_of_the_skills_own_files(entry: str) -> None:
    own = {"skill": "alpha", "path": "references/a.md"}
    call = GRAMMAR.call("read_resource", own) if "ea" in entry else script("scripts/run.py")
    assert GRAMMAR.parse(entry).permits(call, "alpha")
    assert not GRAMMAR.parse(entry).permits(call, "beta")
    assert GRAMMAR.parse(entry.partition("(")[0]).permits(call, "beta")


@pytest.mark.parametrize("args", [[1], "x", None])
def test_a_script_whose_arguments_are_no_words_is_permitted_by_no_pattern_and_met_by_a_ban(
    args: object,
) -> None:
    call = GRAMMAR.call("run_script", {"skill": "alpha", "path": "scripts/run.py", "args": args})
    assert not GRAMMAR.parse("Bash(python:*)").permits(call)
    assert GRAMMAR.parse_ban("Bash(rm:*)").may_mean(call)
    assert not GRAMMAR.parse_ban("Write(secret/*)").may_mean(file("write_file", "open/x"))


def test_the_skill_of_a_call_is_in_the_argument_that_the_spec_names() -> None:
    grammar = Grammar({"deploy": ToolSpec(name="deploy", skill_argument="recipe")})
    assert grammar.call("deploy", {"recipe": "alpha", "skill": "beta"}).skill == "alpha"
    assert grammar.call("send_mail", {"skill": "beta"}).skill is None
