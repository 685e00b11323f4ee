"""Entries of allowed-tools about command lines: what they permit, what slips through them (nothing), bans."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.shell import lines
from skills_agent.shell.git_commands import WRITES
from skills_agent.shell.reading import WRITING_OPTIONS
from skills_agent.skills.policy.command_patterns import ANY
from skills_agent.skills.policy.patterns import Call, Grammar, any_permits

GRAMMAR = Grammar(lines=lines)
TRICKS = [
    "git status; rm -rf x", "git status;rm -rf x", "git status && rm x", "git status || rm x",
    "git status | sh", "git status |& sh", "git status & rm x", "git log > /etc/passwd", "git log &> x",
    "git log 2> x", "git log <> x", "git apply < /etc/passwd", "git apply < ../x", "git log >&'$(rm x)'",
    "git log <<END\n$(rm x)\nEND", "git log | xargs rm", "git log | xargs", "git log $(git log; rm x)",
    "bash -c 'git log; rm x'", 'bash -c "git $X; $Y"', "sh -c 'git log &>x'", "env -S 'git log'",
    "env PATH=. git log", "env GIT_PAGER=x git log", "for PATH in .; do git log; done", "PATH=.; git log",
    "IFS=x; git log", "cd ..; git log", "cd $X; git log", "cd /etc && git log", "cd -; git log",
    "pushd a; git log", "alias git=rm; git x", "function git { rm x; }; git", "export PATH=.; git log",
    "eval git log", "exec git log", "trap 'rm x' EXIT; git log", "source x; git log",
    "shopt -s dotglob; git log", "read 'a[$(rm x)]'; git log", "[[ -v a[$(rm)] ]] && git log",
    "test -v 'a[$(rm)]' && git log", "printf -v 'a[$(rm)]' x; git log", "git $((a[$(rm)]))",
    "git ${a[$(rm)]}", "git ${x@P}", "git ${!x}", 'git $"x"', "a[0]=1 git log", "a=(git log); git log",
    "git log {fd}>x", "coproc git log", "select x in git; do git log; done", "((git))",
    "[[ a -eq b ]] && git log", "{git,rm} x", "git{,x} status", "git log >> x", "git log >| x",
    "git diff <(rm x) a", "git $(rm x)", "git `rm x`", 'git log "$(rm x)"', 'git log "`rm x`"',
    "git status\nrm x", "git status\r\nrm x", "git() { rm x; }", "sudo git status", "exec git status",
    "/usr/bin/git status", "./git status", "../git status", "~/git status", "GIT_PAGER=evil git log",
    "PATH=.:/bin git status", "X=1 Y=2 git status", '"git status"', "git\\ status", "'git '", "git'' ''x;rm",
    'git "unclosed', "git 'unclosed", "git \\", "git \x00 x", "git \x1b x", "GIT status", "gitk", "git-shell",
    "g?t status", "g{i,o}t status", "if git status; then rm x; fi", "git status # ; \n rm x",
    "\u00a0git status", "gi\u200bt status", 'git";"rm x', "rm -rf x", "", "   ",
]  # fmt: skip


def command(text: object) -> Call:
    return GRAMMAR.call("run_command", {"command": text})


def script(path: str, *args: str, skill: str = "alpha") -> Call:
    return GRAMMAR.call("run_script", {"skill": skill, "path": path, "args": list(args)})


def file(tool: str, path: str) -> Call:
    return GRAMMAR.call(tool, {"path": path})


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("Bash(git:*)", "git"), ("Bash(git:*)", "g\"i\"t 'status'"), ("Bash(git *)", "git status"),
        ("Bash(git:*)", "  git   log --oneline\t-3 "),
        ("Bash(git:*)", "git commit -m 'one; two && three | four > five'"),
        ("Bash(git:*)", 'git commit -m "(one)"'), ("Bash(git:*)", "'git' status"),
        ("Bash(git diff *)", "git diff"), ("Bash(git diff *)", "git diff --stat HEAD~1"),
        ("Bash(git * main)", "git checkout main"), ("Bash(git * main)", "git checkout -b main"),
        ("Bash(npm test)", "npm test"), ("Bash(npx *eas-cli@*)", "npx eas-cli@latest"),
        ("Bash(gh api:*)", "gh api repos/a/b"), ("run_command(ls:*)", "ls -l"),
        ("Bash(./build.sh *)", "./build.sh all"), ("Bash(scripts/*.py *)", "scripts/report.py a.csv"),
        ("Bash(git:*)", "git status &"), ("Bash(git:*)", "git log 2>&1 >/dev/null"),
        ("Bash(git:*)", "git apply < patches/one.patch"),
        ("Bash(git:*)", "git apply <<'END'\n$(rm x)\nEND\n"), ("Bash(git:*)", "git log <<< x"),
        ("Bash(git:*)", "git $X ${Y:-z} $((1))"), ("Bash(git:*)", "git $'a'"),
        ("Bash(git:*)", "git commit -m 'a\nb'"),
        ("Bash(git:*)", "(git status) && { git log; } || ! git diff; time git log"),
        ("Bash(git:*)", "if git status; then git log; else git diff; fi\nfor x in a b; do git log $x; done"),
        ("Bash(git:*)", "git log $(git rev-parse HEAD) `git rev-parse a` <(git log)"),
        ("Bash(git:*)", "env LC_ALL=C git status"),
        ("Bash(git:*)", "command git status; nohup timeout -k 3 10s git log"),
        ("Bash(git:*)", "git ls-files | xargs git log"), ("Bash(git:*)", "bash -c 'git log; git status'"),
        ("Bash(git:*)", "cd sub && git status # main"), ("Bash(git:*)", "x=1; git log -$x"),
        ("Bash(git:*)", "LC_ALL=C git log"), ("Bash(git log:*)", "git log src/*.md -- $X *.md"),
        ("Bash(find:*)", "find . -name '*.py'"), ("Bash(bash:*)", 'bash -c "$X"'),
        ("Bash", "git log | wc -l; echo $HOME"), ("Bash(*)", "git log | wc -l"),
    ],
)  # fmt: skip
def test_a_command_that_is_what_the_entry_says_is_permitted(entry: str, text: str) -> None:
    assert GRAMMAR.parse(entry).permits(command(text))


@pytest.mark.parametrize("text", TRICKS)
def test_no_trick_slips_through_a_command_pattern(text: str) -> None:
    assert not GRAMMAR.parse("Bash(git:*)").permits(command(text))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("Bash(git diff *)", "git"), ("Bash(git diff *)", "git status"),
        ("Bash(git diff *)", "git -c x diff"), ("Bash(git diff *)", "git difftool"),
        ("Bash(git diff *)", "git 'diff --stat'"), ("Bash(npm test)", "npm test --x"),
        ("Bash(npm test)", "npm test $X"), ("Bash(npm test)", "npm $X"),
        ("Bash(git diff main)", "git diff *"), ("Bash(scripts/*.py)", "cd a && scripts/x.py"),
        ("Bash(./x *)", "cd a; ./x"), ("Bash(find:*)", "find . -exec rm {} +"),
        ("Bash(xargs:*)", "ls | xargs rm"), ("Bash(git:*)", "X=1 git log"), ("Bash(git * main)", "git main"),
        ("Bash(git * main)", "git push main --force"), ("Bash(npx *eas-cli@*)", "npx -y eas-cli@latest"),
        ("Bash(scripts/*.py)", "scripts/../x.py"), ("Bash(scripts/*.py)", "scripts/a/b.py"),
        ("Bash(git ls-remote:*)", "git ls-remote --upload-pack=./x ."),
        ("Bash(git archive:*)", "git archive --remote=. --exec ./x HEAD"),
        ("Bash(git:*)", 3), ("Bash(git:*)", None), ("Bash(git:*)", ["git", "status"]),
    ],
)  # fmt: skip
def test_a_command_that_is_something_else_is_not_permitted(entry: str, text: object) -> None:
    assert not GRAMMAR.parse(entry).permits(command(text))


@pytest.mark.parametrize(
    "text",
    [
        "'${CLAUDE_SKILL_DIR}/x.py'", "python3 '${CLAUDE_SKILL_DIR}/x.py'", "${CLAUDE_SKILL_DIR}/x.py",
        "CLAUDE_SKILL_DIR=.; $CLAUDE_SKILL_DIR/x.py", "x.py",
    ],
)  # fmt: skip
def test_an_entry_with_a_folder_of_the_skill_speaks_of_no_command_line(text: str) -> None:
    """A folder of the workspace may have the variable as its name, and a line may set it."""
    entries = [f"Bash({way}${{CLAUDE_SKILL_DIR}}/x.py:*)" for way in ("", "python3 ")]
    for entry in GRAMMAR.understood(entries):
        assert not entry.permits(command(text))
        assert not any_permits([entry], command(text))


@pytest.mark.parametrize(
    "text",
    [
        "rm x", "rm", "/bin/rm x", "'rm' x", 'r"m" x', "X=1 rm x", "git status; rm x", "git status && rm x",
        "git status | rm x", "git status\nrm x", "> out rm x", "(rm x)", "if rm x; then ls; fi", "env rm x",
        "sudo rm x", "sh -c 'rm x'", "find . -exec rm {} +", "echo $(rm x)", "echo `rm x`", "$X", "r? x",
        "{rm,x}", "r\\\nm x", "rm ';' x", 'rm "unclosed',
    ],
)  # fmt: skip
def test_a_ban_finds_the_command_wherever_it_stands(text: str) -> None:
    assert GRAMMAR.parse_ban("Bash(rm:*)").may_mean(command(text))


@pytest.mark.parametrize("text", ["ls", "git status", "git rm-like", "ls | wc -l", "echo rm", "rmdir x"])
def test_a_ban_leaves_other_commands(text: str) -> None:
    assert not GRAMMAR.parse_ban("Bash(rm:*)").may_mean(command(text))
    assert not GRAMMAR.parse_ban("Bash(git push *)").may_mean(command(text))


@pytest.mark.parametrize(
    ("entry", "call"),
    [
        ("Bash(git push *)", command("git -C . push --force")),
        ("Write(secret/*)", file("write_file", "secret/x")),
        ("Write(secret/*)", file("write_file", "a/../secret/x")),
        ("Write(secret/*)", file("write_file", "/work/secret/x")),
        ("run_script(scripts/drop.py)", script("scripts/drop.py", skill="beta")),
        ("Bash(python scripts/drop.py *)", script("scripts/drop.py", "--all")),
        ("write_file", file("write_file", "x")),
        ("Bash(a | b)", command("ls")),
        ("Bash(python3 ${CLAUDE_PLUGIN_ROOT}/skills/alpha/scripts/drop.py)", script("scripts/drop.py")),
        ("Bash(${CLAUDE_SKILL_DIR}/scripts/drop.py)", command("sh -c 'x/scripts/drop.py'")),
        ("Bash(rm:*)", GRAMMAR.call("run_command", {"command": ["rm"]})),
        ("Write(/etc/*)", file("write_file", "x")),
    ],
)
def test_a_ban_takes_in_what_cannot_be_told(entry: str, call: Call) -> None:
    assert GRAMMAR.parse_ban(entry).may_mean(call)


@given(st.text(max_size=60), st.text(max_size=60))
def test_entries_never_raise_anything_else(entry: str, text: str) -> None:
    calls = [command(text), script(text, text), file("write_file", text), GRAMMAR.call(text, {})]
    for each in GRAMMAR.understood([entry, f"Bash({entry})", f"Read({entry})"]):
        assert {each.permits(call) for call in calls} <= {True, False}
    for each in GRAMMAR.understood([f"Bash({entry})", f"Read({entry})"], bans=True):
        assert {each.may_mean(call) for call in calls} <= {True, False}


@given(st.text(alphabet="ab *:/-.", max_size=12), st.text(alphabet="ab;| -'\"", max_size=16))
def test_what_an_entry_permits_a_ban_of_the_same_text_forbids(entry: str, text: str) -> None:
    for permitted in GRAMMAR.understood([f"Bash({entry})"]):
        if permitted.permits(command(text)):
            assert GRAMMAR.parse_ban(f"Bash({entry})").may_mean(command(text))


def test_a_pattern_of_many_stars_costs_nothing() -> None:
    entry = GRAMMAR.parse(f"Bash(git {'*a' * 400}b)")
    assert not entry.permits(command(f"git {'a' * 50_000}"))
    assert not GRAMMAR.parse(f"Read({'**/a/' * 200}b)").permits(file("read_file", "a/" * 2_000 + "c"))


DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_patterns_of_the_docs_are_understood_and_reading_ones_write_nothing() -> None:
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    written = "".join(page.read_text(encoding="utf-8") for page in pages)
    texts = {*re.findall(r"(?<![\w-])(?:Bash|run_command)\([^`()]*\)", written)}
    wide = [entry for entry in map(GRAMMAR.parse, texts) if entry.command and entry.command[-1] == ANY]
    reading = [entry for entry in wide if _reads(*(entry.command or ()))]
    assert {"Bash(git diff:*)", "run_command(git log:*)"} <= {entry.text for entry in reading}
    for entry in reading:
        plain = " ".join((entry.command or ())[:-1])
        assert entry.permits(command(f"{plain} -3 x"))
        for option in WRITING_OPTIONS[plain.split()[0]]:
            for more in (f"{option}=x", f"{option} x", f"x {option[:5]}=x", "$X", "*.md"):
                assert not entry.permits(command(f"{plain} {more}")), (entry.text, more)


def _reads(program: str, second: str = ANY, *_: str) -> bool:
    return program in WRITING_OPTIONS and (program != "git" or second not in {ANY, *WRITES})
