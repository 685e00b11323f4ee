"""The file tools: what they give, and that they stay inside the workspace."""

import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException

from skills_agent.graph.tools.content import excerpt
from skills_agent.graph.tools.declare import declare
from skills_agent.graph.tools.files import FileTools
from skills_agent.graph.tools.workspace import Workspace

Call = Callable[..., str]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with something private beside it."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "private.txt").write_text("private")
    return folder


@pytest.fixture
def call(workspace: Path) -> Call:
    """Return a function that calls a tool and gives its answer: `call("read_file", path="a")`."""
    files = FileTools(Workspace(workspace), grep_seconds=2)
    functions: list[Any] = [files.read_file, files.list_dir, files.grep, files.write_file]
    tools = {tool.name: tool for tool in map(declare, functions)}

    def call(tool: str, /, **args: Any) -> str:
        answer = tools[tool].invoke({"name": tool, "args": args, "id": "1", "type": "tool_call"})
        assert isinstance(answer, ToolMessage)
        assert isinstance(answer.content, str)
        return f"ERROR {answer.content}" if answer.status == "error" else answer.content

    return call


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


EVERY_TOOL: dict[str, dict[str, str]] = {
    "read_file": {},
    "list_dir": {},
    "grep": {"pattern": "."},
    "write_file": {"content": "pwned"},
}
WAYS_OUT = [
    "../private.txt",
    "sub/../../private.txt",
    "{place}/private.txt",
    "/etc/passwd",
    "link.txt",
    "to-nothing",
    "folder/private.txt",
    "sub/relative",
    "/proc/self/environ",
    "..",
    "a\0b",
]


@pytest.mark.parametrize("path", WAYS_OUT)
def test_no_tool_leaves_the_workspace(call: Call, workspace: Path, path: str) -> None:
    place = workspace.parent
    (workspace / "sub").mkdir()
    (workspace / "link.txt").symlink_to(place / "private.txt")
    (workspace / "to-nothing").symlink_to(place / "new.txt")
    (workspace / "folder").symlink_to(place)
    (workspace / "sub" / "relative").symlink_to("../../private.txt")
    for tool, args in EVERY_TOOL.items():
        answer = call(tool, path=path.format(place=place), **args)
        assert answer.startswith("ERROR ")
        assert answer.endswith("leads out of the workspace. Use a path relative to it.")
    assert (place / "private.txt").read_text() == "private"
    assert not (place / "new.txt").exists()


@pytest.mark.parametrize(
    "path", ["data/a.txt", "./data/a.txt", "data/../data//a.txt", "{root}/data/a.txt", "link/a.txt"]
)
def test_every_way_to_write_a_path_inside_works(call: Call, workspace: Path, path: str) -> None:
    (workspace / "data").mkdir()
    (workspace / "data" / "a.txt").write_text("here")
    (workspace / "link").symlink_to("data")
    path = path.format(root=workspace)
    assert call("read_file", path=path) == "here"
    assert call("grep", pattern="here", path=path) == "data/a.txt:1: here"
    assert call("write_file", path=path, content="there").startswith("Replaced")
    assert (workspace / "data" / "a.txt").read_text() == "there"


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder"])
def test_what_is_no_regular_file_is_refused_and_never_waited_for(
    call: Call, workspace: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(workspace)
    with socket.socket(socket.AF_UNIX) as sock:
        make: dict[str, Callable[[str], None]] = {"fifo": os.mkfifo, "folder": os.mkdir, "socket": sock.bind}
        make[kind]("odd")
    assert call("read_file", path="odd").startswith("ERROR odd is")
    assert call("write_file", path="odd", content="x").startswith("ERROR odd is")
    assert call("grep", path=".", pattern="x") == "No line matches."


def test_some_lines_come_with_the_way_to_the_rest(call: Call, workspace: Path) -> None:
    (workspace / "a.txt").write_text("1\n2\n3\n4\n")
    assert call("read_file", path="a.txt", start=2, lines=2) == "2\n3\n[lines 2-3 of 4; go on with start=4]"
    assert call("read_file", path="a.txt", start=4) == "4\n[lines 4-4 of 4]"
    assert call("read_file", path="a.txt", start=5) == "ERROR start=5 is after the end: there are 4 lines."


@pytest.fixture
def things(workspace: Path) -> None:
    """Put things into the workspace that are no plain text of one name."""
    (workspace / "a.png").write_bytes(b"\x89PNG" + b"x" * 20_000 + b"\0")
    with (workspace / "big").open("wb") as file:
        file.truncate(5_000_000_000)
    (workspace / "sub" / "site-packages").mkdir(parents=True)
    (workspace / "a\nb.txt").touch()
    os.link(workspace.parent / "private.txt", workspace / "sub" / "site-packages" / "module.py")
    (workspace / "wide").write_text("ab\n" + "x" * 30_050)


@pytest.mark.usefixtures("things")
@pytest.mark.parametrize(
    ("tool", "args", "answer"),
    [
        ("read_file", {"path": "a.png"}, "ERROR a.png is a binary file of 20,005 bytes, not text to read."),
        ("read_file", {"path": "big"}, "ERROR big has 5,000,000,000 bytes, over the limit of 10,000,000. "),
        ("read_file", {"path": "nope"}, "ERROR There is no nope in the workspace. list_dir shows what"),
        ("read_file", {"path": "sub/site-packages/module.py"}, "private"),  # an installer linked it
        ("read_file", {"path": "wide", "start": 2}, "x" * 30_000 + "\n[line 2 has 30050 characters and was"),
        ("list_dir", {"path": "nope"}, "ERROR There is no nope"),
        ("list_dir", {"path": "big"}, "ERROR big is"),
        ("list_dir", {}, "sub/\na b.txt (0 bytes)\na.png (20,005 bytes)\nbig (5,000,000,000 bytes)\nwide ("),
        ("grep", {"pattern": "x", "path": "nope/nope"}, "ERROR "),
        ("grep", {"pattern": ""}, "ERROR The pattern has to have 1 to 500 characters."),
        ("grep", {"pattern": "x" * 501}, "ERROR The pattern has to have 1 to 500 characters."),
        ("write_file", {"path": "", "content": "x"}, "ERROR "),
        ("write_file", {"path": "sub", "content": "x"}, "ERROR "),
        ("write_file", {"path": "big/below", "content": "x"}, "ERROR "),
    ],
)
def test_an_answer_says_what_is_there_or_what_to_do(
    call: Call, workspace: Path, tool: str, args: dict[str, Any], answer: str
) -> None:
    before = names_in(workspace)
    assert call(tool, **args).startswith(answer)
    assert names_in(workspace) == before


@given(st.lists(st.text(alphabet="ab", max_size=9), min_size=1, max_size=40), st.integers(10, 60))
def test_following_the_notes_reads_every_line_once(lines: list[str], limit: int) -> None:
    text = "\n".join(lines)
    read: list[str] = []
    start: int | None = 1
    while start is not None:
        shown = excerpt(text, start, None, limit).split("\n")
        note = shown.pop() if shown[-1].startswith("[lines") else ""
        read += shown
        start = int(note.rpartition("=")[2].rstrip("]")) if "go on" in note else None
    assert read == text.removesuffix("\n").split("\n")


@given(st.text(max_size=300), st.integers(-5, 10), st.integers(-5, 10), st.integers(1, 50))
def test_an_excerpt_is_bounded_whatever_is_asked(text: str, start: int, count: int, limit: int) -> None:
    try:
        shown = excerpt(text, start, count, limit)
    except ToolException:
        assert start > len(text.split("\n")) - 1
    else:
        assert len(shown) <= limit + 80


def test_a_folder_lists_folders_first_then_files_with_sizes(call: Call, workspace: Path) -> None:
    (workspace / "zoo").mkdir()
    (workspace / "a.csv").write_text("x" * 1_234)
    (workspace / "b").symlink_to("a.csv")
    assert call("list_dir") == "zoo/\na.csv (1,234 bytes)\nb (link)"
    assert call("list_dir", path="zoo") == "[zoo is empty]"
    for number in range(510):
        (workspace / "zoo" / f"{number:03}").touch()
    assert call("list_dir", path="zoo").splitlines()[499:] == ["499 (0 bytes)", "[10 more]"]


def test_a_file_is_written_with_the_folders_it_needs_and_keeps_its_mode(call: Call, workspace: Path) -> None:
    file = workspace / "out" / "2026" / "report.md"
    answer = call("write_file", path="out/2026/report.md", content="# Größe\n\nx\n")
    assert answer == "Wrote out/2026/report.md: 13 bytes, 3 lines."
    assert file.read_bytes() == "# Größe\n\nx\n".encode()
    file.chmod(0o750)
    answer = call("write_file", path="out/2026/report.md", content="new")
    assert answer == "Replaced out/2026/report.md: 3 bytes, 1 line."
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert names_in(file.parent) == ["report.md"]  # and no draft


def test_a_file_and_all_its_names_are_on_the_disk_when_the_tool_answers(
    call: Call, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted_sync(file: int) -> None:
        sync(file)
        steps.append(Path(f"/proc/self/fd/{file}").readlink().name)

    def noted_replace(*args: Any, **kwargs: Any) -> None:
        replace(*args, **kwargs)
        steps.append("replaced")

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    call("write_file", path="out/2026/report.md", content="x")
    *folders, draft, replaced, folder = steps
    assert folders == [workspace.name, "out"]  # where a folder was made
    assert draft.endswith(".draft")
    assert (replaced, folder) == ("replaced", "2026")


def test_grep_looks_where_it_is_told_and_in_no_hidden_or_binary_file_or_link(
    call: Call, workspace: Path
) -> None:
    (workspace / "docs" / "deep").mkdir(parents=True)
    for path in ("a.md", "a.py", "docs/b.md", "docs/deep/c.md"):
        (workspace / path).write_text("Total: 5\n")
    for path in (".git/config", ".env", "node_modules/x.js", "bin"):
        (workspace / path).parent.mkdir(exist_ok=True)
        (workspace / path).write_bytes(b"\0Total" if path == "bin" else b"Total")
    (workspace.parent / "total.txt").write_text("Total")
    (workspace / "link").symlink_to(workspace.parent)
    (workspace / "linked.txt").symlink_to(workspace.parent / "total.txt")
    assert call("grep", pattern="total") == "No line matches."
    assert call("grep", pattern="total", ignore_case=True).count("\n") == 3
    assert call("grep", pattern="total", ignore_case=True, glob="*.md").count("\n") == 2
    in_docs = call("grep", pattern="Total", glob="docs/**/*.md")
    assert in_docs == "docs/b.md:1: Total: 5\ndocs/deep/c.md:1: Total: 5"
    assert call("grep", pattern="Total", path="docs/deep") == "docs/deep/c.md:1: Total: 5"
    assert call("grep", pattern="Total", path=".git") == ".git/config:1: Total"


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"(a?){900}b"])
def test_a_pattern_that_never_ends_elsewhere_ends_here(call: Call, workspace: Path, pattern: str) -> None:
    (workspace / "a.txt").write_text("a" * 60 + "!\n")
    assert call("grep", pattern=pattern) == "No line matches."


def test_what_was_found_before_the_time_limit_is_given(workspace: Path) -> None:
    """Every line but the first takes a tenth of a second and more."""
    (workspace / "a.txt").write_text("b\n" + ("a" * 3_900 + "\n") * 500)
    answer = FileTools(Workspace(workspace), grep_seconds=0.5).grep("(.?){1000}b")
    assert answer.splitlines() == [
        "a.txt:1: b",
        "[stopped after 0.5 s; narrow the pattern, the path or the glob]",
    ]


def test_hits_are_bounded_in_number_and_length_and_hide_nothing(call: Call, workspace: Path) -> None:
    (workspace / "a.txt").write_text(("x" * 2_000 + "needle" + "y" * 2_000 + "\n") * 150)
    lines = call("grep", pattern="needle").splitlines()
    assert len(lines) == 101
    assert all("needle" in line and len(line) < 300 for line in lines[:100])
    assert lines[100] == "[there are more; these are the first 100]"
    (workspace / "a.txt").write_text("needle \x1b[31m\u202e\U000e0041 end\n")
    assert call("grep", pattern="needle") == "a.txt:1: needle [31m end"


@pytest.mark.parametrize("pattern", ["(", "a{1001}", "\udc80", "a(?=b)", r"(\w{99}){99}"])
def test_what_is_no_pattern_is_an_error_to_act_on(call: Call, workspace: Path, pattern: str) -> None:
    (workspace / "a.txt").write_text("x")
    answer = call("grep", pattern=pattern)
    assert answer.startswith("ERROR RE2 does not understand this pattern: ")
    assert answer.endswith("no lookaround and no backreferences: write the pattern without them.")


@given(
    pattern=st.sampled_from(
        ["^$", "^a", "b$", r"\Aa", r"b\z", "[^a]b", r"b\s", "(?-m:^a)", "(?i)A.", "a|^b", r"\bé?b"]
    ),
    lines=st.lists(st.text("abé x", max_size=3), max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_a_line_matches_as_if_it_were_alone(
    tmp_path_factory: pytest.TempPathFactory, pattern: str, lines: list[str], end: str
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "a.txt").write_bytes("".join(line + end for line in lines).encode())
    matcher = re.compile(pattern.replace(r"\z", r"\Z"), re.ASCII)
    expected = [f"a.txt:{number}: {line}" for number, line in enumerate(lines, 1) if matcher.search(line)]
    assert FileTools(Workspace(folder)).grep(pattern) == ("\n".join(expected) or "No line matches.")


@pytest.mark.parametrize(
    "path",
    [".agent/threads.db", ".agent/work/other/notes", "alias/threads.db", ".AGENT/threads.db", ".agent"],
)
def test_the_agents_own_folder_is_closed(call: Call, workspace: Path, path: str) -> None:
    (workspace / ".agent" / "work" / "other").mkdir(parents=True)
    for name in ("threads.db", "work/other/notes"):
        (workspace / ".agent" / name).write_text("checkpoints")
    (workspace / "alias").symlink_to(".agent")
    for tool, args in EVERY_TOOL.items():
        answer = call(tool, path=path, **args)
        assert answer.startswith("ERROR ")
        assert "is in .agent, which is closed to tools but for .agent/skills" in answer
    assert (workspace / ".agent" / "threads.db").read_text() == "checkpoints"


def test_the_skills_in_the_agents_folder_are_open(call: Call, workspace: Path) -> None:
    path = ".agent/skills/mine/SKILL.md"
    assert call("write_file", path=path, content="# Mine") == f"Wrote {path}: 6 bytes, 1 line."
    assert call("read_file", path=path) == "# Mine"
    assert call("list_dir", path=".agent/skills") == "mine/"
    assert call("grep", path=".agent/skills", pattern="Mine") == f"{path}:1: # Mine"


def test_a_file_with_a_second_name_is_not_read(call: Call, workspace: Path) -> None:
    os.link(workspace.parent / "private.txt", workspace / "linked.txt")
    assert "second name" in call("read_file", path="linked.txt")
    assert call("grep", pattern="private") == "No line matches."
    assert call("grep", pattern="private", path="linked.txt") == "No line matches."
    call("write_file", path="linked.txt", content="mine")
    assert (workspace.parent / "private.txt").read_text() == "private"
