"""A shell's command line is taken apart as bash reads it, or not at all."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_agent.shell.commands import SimpleCommand
from skills_agent.shell.shell import take_apart
from skills_agent.shell.wrappers import wrapped
from tests.examples import trying

BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="needs bash")
PROGRAMS = ("aa", "bb", "cc")
RECORDER = """#!/bin/sh
printf '%s\\0' "${0##*/}" "$@" '' >"$(mktemp "$LOG/XXXXXXXX")"
"""


class Bash:
    """Runs lines in bash with programs that note their arguments, in a folder where nothing else is."""

    def __init__(self, place: Path) -> None:
        self.programs, self.log, self.work = place / "bin", place / "log", place / "work"
        self.programs.mkdir()
        for name in PROGRAMS:
            program = self.programs / name
            program.write_text(RECORDER.replace("mktemp", shutil.which("mktemp") or "mktemp"))
            program.chmod(0o755)

    def run(self, line: str) -> tuple[list[list[str]], set[str]]:
        """Return the words of every program that ran, and the files that were made."""
        for folder in (self.log, self.work):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        environment = {"PATH": os.fspath(self.programs), "LOG": os.fspath(self.log), "LANG": "C.UTF-8"}
        readable, writable = os.pipe()
        try:
            subprocess.run(
                [str(BASH), "--norc", "--noprofile", "-c", line], cwd=self.work, env=environment, timeout=60,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[writable],
            )  # fmt: skip
        finally:
            os.close(writable)
        with os.fdopen(readable, "rb") as pipe:
            pipe.read()  # until what runs in the background has ended, too
        ran = [each.read_text().split("\0")[:-2] for each in sorted(self.log.iterdir())]
        return ran, {each.name for each in self.work.iterdir()}


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Bash:
    return Bash(tmp_path_factory.mktemp("bash"))


def is_what_ran(command: SimpleCommand, words: Sequence[str]) -> bool:
    """Return whether words are those of a command; a dynamic one may be any number of words."""
    known = [word.text for word in command.words]
    if None not in known:
        return known == list(words)
    at = known.index(None)
    return known[:at] == list(words[:at])


def check_against(bash: Bash, line: str) -> None:
    """A shell agrees: nothing ran and no file was written that was not found in the line."""
    commands = take_apart(line)
    if commands is None or any(wrapped(each) is None for each in commands):
        return
    commands = (*commands, *(inner for each in commands for inner in wrapped(each) or ()))
    ran, made = bash.run(line)
    for words in ran:
        assert any(is_what_ran(each, words) for each in commands), (words, commands)
    targets = {
        each.target.text for command in commands for each in command.redirections if each.operator != "<"
    }
    assert None in targets or made <= targets, (made, targets)


QUOTED = st.text(alphabet="ab ;|&<>()#$`!*?[]{}~=\\\n\t-é", max_size=6)
PIECES = st.one_of(
    st.text(alphabet="ab-=.,:%+@^/é#!~{}[]*?", min_size=1, max_size=4),
    st.sampled_from(list(";|&<>()#$`!*?[]{}~\\\"' ab")).map(lambda each: f"\\{each}"),
    QUOTED.map(lambda text: f"'{text}'"),
    QUOTED.map(lambda text: '"' + "".join(f"\\{each}" if each in '$`\\"' else each for each in text) + '"'),
    QUOTED.map(lambda text: f'"{text}"'),
    st.text(alphabet="ab ;|n\\'\"x4e017t", max_size=6).map(lambda text: f"$'{text}'"),
    st.sampled_from(
        [
            "$x", "${x}", "${x:-a b}", "${x:-$y/a}", "$(bb)", '"$(cc a)"', "`bb a`", "$((1+2))", "$?", "$",
            "<(bb)",
        ]
    ),
)  # fmt: skip
WORDS = st.lists(PIECES, min_size=1, max_size=3).map("".join)
BLANKS = st.sampled_from([" ", "  ", "\t", " \\\n"])
REDIRECTIONS = st.tuples(
    st.sampled_from(["", "2", "1"]),
    st.sampled_from([">", ">>", ">|", "&>", "&>>", "2>&1 >", "<<<", "<", ">&"]),
    st.sampled_from(["", " "]),
    st.sampled_from(["f1", "'f 2'", "f\\ 3", "/dev/null", '"f4"', "'$(bb)'", "'`bb`'", '"f$(cc)"']),
).map("".join)
ARGUMENTS = st.lists(st.one_of(WORDS, WORDS, REDIRECTIONS), max_size=4)
BUILTINS = (
    "[", "test", "printf", "echo", ":", "true", "read", "[[", "command", "type", "pwd", "unset", "wait",
)  # fmt: skip
SIMPLE = st.builds(
    lambda before, program, arguments, blank: blank.join([*before, program, *arguments]),
    st.lists(st.one_of(WORDS.map(lambda word: f"x={word}"), REDIRECTIONS), max_size=1),
    st.sampled_from([*PROGRAMS, *BUILTINS, "'aa'", "a\\a", 'b"b"', "c$'c'"]),
    ARGUMENTS,
    BLANKS,
)


def lines_of(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = [";", "; ", " && ", "||", " | ", "|", "&", "\n", "\n\n", " # no;aa\n", " |& ", " && \n"]
    return st.one_of(
        st.tuples(inner, st.sampled_from(signs), inner).map("".join),
        inner.map(lambda line: f"({line})"),
        inner.map(lambda line: f"{{ {line}\n}} >f9"),
        inner.map(lambda line: f"! {line}"),
        inner.map(lambda line: f"time {line}"),
        st.tuples(inner, inner).map(lambda two: f"if {two[0]}\nthen {two[1]}\nfi"),
        inner.map(lambda line: f"for x in a 'b c' *; do {line}\ndone"),
        inner.map(lambda line: f"case a in b|'a') {line}\n;; *) bb\nesac"),
        inner.map(lambda line: f"aa $({line}\n) a"),
        inner.map(lambda line: f"aa <<'E' a\n$(cc)\nE\n{line}"),
        inner.map(lambda line: f"aa <<E | bb a\n$x;\nE\n{line}"),
    )


LINES = st.recursive(SIMPLE, lines_of, max_leaves=4)


@needs_bash
@trying(100)
@given(line=LINES)
@example(line="2>/dev/null aa b")
@example(line="aa $'a\\tb\\nc\\x41\\101'")
@example(line="for PATH in .; do aa; done")
@example(line="aa >&'$(bb)'")
@example(line="[ 'a[$(bb)]' -eq 1 ]")
@example(line="[[ 'a[$(bb)]' -eq 1 ]]")
@example(line="[[ -v 'a[$(bb)]' ]]")
@example(line="test -v 'a[$(bb)]'")
@example(line="test 'a[$(bb)]' -eq 1 -o -R 'a[$(bb)]'")
@example(line="printf -v 'a[$(bb)]' x")
@example(line="printf %d 'a[$(bb)]'")
@example(line="read 'a[$(bb)]' <<<x")
@example(line="unset 'a[$(bb)]'")
@example(line="wait -p 'a[$(bb)]'")
@example(line="x='a[$(bb)]'; echo $((x))")
@example(line="x='a[$(bb)]'; echo ${y:x}")
@example(line="x='a[$(bb)]'; echo ${!x}")
@example(line="x='$(bb)'; echo ${x@P}")
@example(line="x='-v a[$(bb)]'; [ $x ]")
@example(line="x=-v; [ \"$x\" 'a[$(bb)]' ]")
@example(line="x=-v; set -- a; test \"$@\" 'a[$(bb)]'")
@example(line="x='-v PATH'; printf $x .; aa")
@example(line="printf 'abc%n' PATH; aa")
@example(line="read PATH <<<.; aa")
@example(line="bash -c 'bb'")
@example(line="PS4='$(bb)'; set -x; aa")
def test_bash_runs_nothing_but_what_is_found_in_a_line(line: str, bash: Bash) -> None:
    check_against(bash, line)


@needs_bash
@trying(100)
@given(line=st.text(alphabet="aab  c'\"\\;|&<>()#!{}$`\n\t=~*?[]-^%\r\u00a0", max_size=20))
@example(line="aa\\\nb")
@example(line="aa \\\\\nbb")
@example(line="aa\rbb")
@example(line="aa $(bb # )\n)")
@example(line="aa `bb \\`cc\\``")
@example(line='aa "`bb "a"`"')
@example(line="{aa,b}")
@example(line="aa<(bb)")
@example(line="aa 2<(bb)")
@example(line="aa()(bb)")
@example(line="aa <<b\nb b\nb\ncc")
@example(line="aa $'\\'' bb")
def test_bash_runs_nothing_else_of_any_text(line: str, bash: Bash) -> None:
    check_against(bash, line)
