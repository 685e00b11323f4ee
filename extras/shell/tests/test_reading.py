"""Command lines that only read: of these, and of no others, nobody is asked."""

from pathlib import Path
from typing import Any

import pytest

from skills_agent.shell import lines
from skills_agent.skills.policy.patterns import Call, Grammar, Places


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("read") / "work"
    for each in ("src", "other", "src/closed", "skill"):
        (folder / each).mkdir(parents=True)
    for each in ("a.txt", "b.txt", "src/a.py", "other/a.py"):
        (folder / each).write_text("1\n")
    (folder / "out").symlink_to("/etc")
    (folder / "src/link").symlink_to("/etc/passwd")
    return folder


def risk(work: Path, command: str, closed: str = "", **args: Any) -> str:
    shut = (str(work / closed),) if closed else ()
    grammar = Grammar(places=Places(str(work), f"/usr/bin:{work}/venv/bin", closed=shut), lines=lines)
    call = grammar.call("run_command", {"command": command, **args})
    places = call.places._replace(start=str(work), readable=(str(work.parent / "skill"),))
    return Call(call.spec, call.args, places=places, lines=lines).risk


@pytest.mark.parametrize(
    "command",
    [
        "cat a.txt", "ls -la src | head -5", "ls --color=auto --all src",
        "cat a.txt 2>/dev/null | grep -n 1", "cat a.txt 2>&1 | tail -n +2", "head -5 a.txt",
        "head -c5 a.txt b.txt", "grep -rn -A3 --include='*.py' x src", "grep -e x -e y a.txt",
        "rg -t py x src", "find src -name '*.py' -type f -print0",
        "find src \\( -name a -o -name b \\) -prune", "wc -l < /dev/null a.txt",
        "sort -k2,2n a.txt | uniq -c", "sort a.txt | uniq -c | sort -rn | head", "cut -d, -f1 a.txt",
        "tr a-z A-Z", "diff -u a.txt b.txt", "sed -n '1,5p' a.txt", "sed 5q a.txt", "stat -c %s a.txt",
        "date +%F", "date -d yesterday +%s", "jq -r .a a.txt", "pwd; whoami; uname -a; id -u",
        "echo 'a; b' c", "which python3", "command -v git", "test -f a.txt && cat a.txt || true",
        "[ -f a.txt ] && echo yes", "[[ -d src ]]", "cd src && ls && cat a.py", "(cd src; cat a.py)",
        "if [ -f a.txt ]; then cat a.txt; fi", "! ls", "time ls", "timeout 5 grep -c x a.txt",
        "bash -c 'cat a.txt | wc -l'", "basename /etc/passwd .x", 'cat \'a.txt\' a"."txt', "cat -- a.txt",
        "du -sh src", "sha256sum a.txt", "true", "printf '%s\\n' a", "ls src # all of it",
        "set -euo pipefail; ls src", "grep @x a.txt", "echo @x", "date -d @0 +%F",
    ],
)  # fmt: skip
def test_a_line_of_reading_commands_is_of_risk_read(work: Path, command: str) -> None:
    assert risk(work, command) == "read"


@pytest.mark.parametrize(
    "command",
    [
        "", "rm a.txt", "cat a.txt > b.txt", "cat a.txt >> b.txt", "cat a.txt &> b.txt", "cat < a.txt",
        "> b.txt", "cat a.txt | tee b.txt", "cat a.txt | sh", "ls; rm a.txt", "ls\nrm a.txt",
        "ls & rm a.txt", "ls $(rm a.txt)", "ls `rm a.txt`", "cat <(rm a.txt)", "cat $X", "cat *", "cat ~",
        "cat {a,b}.txt", "X=1 cat a.txt", "X=1", "LC_ALL=C cat a.txt", "./cat a.txt", "/bin/cat a.txt",
        "src/../cat x", "cat <<< x", "cat <<E\nE", "sudo cat a.txt", "git log", "git status", "git diff",
        "awk 1 a.txt", "less a.txt", "more a.txt", "man ls", "vi a.txt", "python3 -c 1", "env", "printenv",
        "xargs cat", "ls | xargs rm", "find . -delete", "find . -exec rm {} +", "find . -exec cat {} +",
        "find . -fprint x", "find . -fls x", "find -L src", "find . -name", "find . -newer /x",
        "sort -o a.txt b.txt", "sort b.txt -o a.txt", "sort --output=a.txt", "sort --outp=a.txt",
        "sort -T src a.txt", "sort --compress-program=sh a.txt", "sort --files0-from=a.txt",
        "uniq a.txt b.txt", "grep -f a.txt b.txt", "grep -R x src", "grep --file=a.txt x", "rg --pre sh x",
        "rg -z x", "rg -L x", "rg -f a.txt", "sed -n 'w x' a.txt", "sed -n '1e rm' a.txt",
        "sed -i -n 1p a.txt", "sed -n -e 'w x' a.txt", "diff -r src other", "diff src other", "date -s 1",
        "date 01010000", "date -f a.txt", "tail -f a.txt", "tree -o x", "file -C -m a.txt", "file -z a.txt",
        "file -f a.txt", "strings @a.txt", "strings -n @a.txt x", "strings -- @a.txt", "cat @a.txt",
        "wc --files0-from=a.txt", "du -L src", "md5sum -c a.txt", "xxd -r a.txt b.txt",
        'jq \'import "a" as $a; 1\' a.txt', "jq -f a.txt b.txt", "jq -n env", "jq -n '$ENV'",
        "jq --rawfile a a.txt .", "test -v 'a[$(rm)]'", "[ -v 'a[$(rm)]' ]", "[[ -v a[$(rm)] ]]",
        "[[ a -eq 1 ]]", "printf -v 'a[$(rm)]' x", "printf -va x", "printf 'abc%n' PATH; ls",
        "printf -- '%5ln' PATH; ls", "read x", "cd ..; ls", "cd; ls", "cd -; ls", "cd $X; ls",
        "pushd src; ls", "for x in a; do cat $x; done", "while true; do cd src; ls; done",
        "cat() { rm x; }; cat a.txt", "alias cat=rm; cat a.txt", "eval cat a.txt", "exec cat a.txt",
        "set -x; ls", "export A=1; ls", "hash -p ./x cat; cat a.txt", "enable -n test; ls",
        "trap 'rm x' EXIT; ls", "hostname x", "whoami x", "ls >&'$(rm x)'", "head -n",
        "cat --unknown a.txt", "ls \\",
    ],
)  # fmt: skip
def test_any_other_line_keeps_the_risk_of_the_tool(work: Path, command: str) -> None:
    assert risk(work, command) == "run"


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/passwd", "cat ../x", "cat src/../../x", "cat out/passwd", "cat src/link", "ls out",
        "ls /", "ls ..", "grep -r x /etc", "find / -name x", "cd /etc && cat passwd",
        "cd out && cat passwd", "cd out; ls", "head -5 a.txt /etc/passwd", "wc -l src/closed/x",
        "grep -r x .", "ls src", "ls", "find", "rg x", "du", "tree", "[ -f /etc/passwd ]", "test -e ../x",
        "diff src other", "bash -c 'cat /etc/passwd'", "rg --files /etc", "grep -e x /etc/passwd",
        "jq . /etc/x", "sed -n 1p /etc/passwd", "realpath /etc", "od -w /etc/passwd", "ls -w /etc",
    ],
)  # fmt: skip
def test_what_is_not_of_the_workspace_or_is_closed_is_asked_about(work: Path, command: str) -> None:
    assert risk(work, command, closed="src/closed") == "run"


@pytest.mark.parametrize(
    ("command", "args", "wanted"),
    [
        ("cat {skill}/a.md", {}, "read"), ("cat {skill}/../a.md", {}, "run"),
        ("cd {skill} && cat a.md", {}, "read"), ("cat a.py", {"cwd": "src"}, "read"),
        ("cat link", {"cwd": "src"}, "run"), ("ls", {"cwd": "out"}, "run"), ("ls", {"cwd": "/etc"}, "run"),
        ("ls src", {"cwd": ["src"]}, "run"), ("ls src", {"cwd": "\0"}, "run"),
        ("cat a.txt", {"skill": "alpha"}, "run"),  # its packages may have programs of that name
    ],
)  # fmt: skip
def test_a_skill_and_the_folder_of_the_call_count(
    work: Path, command: str, args: dict[str, Any], wanted: str
) -> None:
    assert risk(work, command.format(skill=work.parent / "skill"), **args) == wanted
