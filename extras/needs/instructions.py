"""What commands show, in instructions and in scripts: known programs, and packages that they install."""

import re
import shlex
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from skills_agent.needs.declared import NO_DEMAND, need_of
from skills_agent.needs.known_names import PROGRAMS, is_known
from skills_agent.needs.node_files import node_package
from skills_agent.needs.python_files import requirement
from skills_agent.skills.skill import Need

_FENCE: Final = re.compile(r"[ \t]{0,12}(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)")
_SHELLS: Final = frozenset({"bash", "sh", "shell", "zsh", "console", "terminal", "shell-session"})
_SEPARATOR: Final = re.compile(r"&&|\|\||[|;]")
_BEFORE: Final = re.compile(r"(?:(?:sudo|time|exec|env|then|do|[$%]|[A-Za-z_]\w*=\S*)\s+)*")
_PIP: Final = re.compile(r"(?:pip3?|python3? -m pip|uv pip)\s+install\s+(?P<rest>.*)")
_NPM: Final = re.compile(r"npm\s+(?:install|i|add)\s+(?:-g|--global)\s+(?P<rest>.*)")
"""Without `-g`, packages are for the project that the person works on."""
_SPAN: Final = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_VALUED: Final = frozenset(
    {
        *("-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-t", "--target"),
        *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--python", "--prefix"),
    }
)
"""Options of pip that take a value."""
_PIP_IN_CODE: Final = re.compile(
    r"""\b(?:pip3?["']?\s{0,9},?\s{0,9}["']?install["']?)(?P<form>\s{0,9},|[ \t]{1,9})"""
    r"""(?P<rest>[^\n|;&)`\]]{1,300})"""
)
_MAX_FOUND: Final = 100
"""Of each kind, in one script: what is found may cost a look through all of it."""
_QUOTED: Final = re.compile(r"""["']([^"'\n]+)["']""")
_MAX_LINES: Final = 20_000
_LONGEST: Final = 500


def shell_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield the lines of the code blocks that say that they are a shell's, with their numbers from 1.

    What a here-document holds is left out.
    """
    fence, is_shell, heredoc = "", False, ""
    for number, line in enumerate(text.split("\n")[:_MAX_LINES], 1):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark["fence"].startswith(fence) and not line.strip(" \t`~"):
                fence = heredoc = ""
            elif heredoc:
                heredoc = "" if line.strip() == heredoc else heredoc
            elif is_shell and len(line) <= _LONGEST:
                if begun := re.search(r"<<-?\s*['\"]?(\w+)", line):
                    heredoc = begun[1]
                yield line.strip(), number
        elif mark:
            fence, is_shell = mark["fence"], mark["language"].lower() in _SHELLS


def needs_shown(text: str, file: str) -> Iterator[Need]:
    """Yield the known programs that commands begin with, and the packages that commands install.

    Commands that install count in code spans of the text, too, where they are no option.
    """
    for text_line, number in shell_lines(text):
        said = f"{file}:{number}"
        for part in _SEPARATOR.split(text_line):
            command = part.strip()[_BEFORE.match(part.strip()).end() :]  # type: ignore[union-attr]  # matches ""
            yield from _packages_of(command, said)
            name = command.partition(" ")[0]
            is_known = name in PROGRAMS and not _PIP.match(command) and not _NPM.match(command)
            if is_known and (need := need_of("program", name, said)):
                yield need
    for number, line in enumerate(text.split("\n")[:_MAX_LINES], 1):
        if "`" in line and len(line) <= _LONGEST and not NO_DEMAND.search(line):
            for span in _SPAN.finditer(line):
                yield from _packages_of(span[1], f"{file}:{number}")


def _packages_of(command: str, said: str) -> Iterator[Need]:
    """Yield the packages that a command installs for all of this machine's scripts; most install none."""
    if match := _PIP.match(command):
        yield from (need for word in words_of(match["rest"]) if (need := requirement(word, said)))
    elif match := _NPM.match(command):
        yield from (need for word in words_of(match["rest"]) if (need := node_package(word, said)))


def words_of(text: str) -> list[str]:
    """Return the names among the words behind `pip install`, as a shell splits them."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return []
    names: list[str] = []
    for place, word in enumerate(words):
        is_value = place > 0 and words[place - 1] in _VALUED
        if not word.startswith(("-", ".", "/", "<", ">", "$", "&")) and not is_value:
            names.append(word)
    return names


def packages_installed(text: str, said: str, modules: Collection[str]) -> Iterator[Need]:
    """Yield the packages that a script installs with pip, or tells people to. `modules` are what it imports.

    In a sentence (`pip install pymupdf to read PDF`) only the first word is surely one.
    """
    for match in islice(_PIP_IN_CODE.finditer(text), _MAX_FOUND):
        if "," in match["form"]:
            words = [each for each in _QUOTED.findall(match["rest"]) if not each.startswith("-")]
        else:
            line = text[text.rfind("\n", 0, match.start()) + 1 : match.start("rest")]
            rest = match["rest"]
            for quote in "\"'":
                if line.count(quote) % 2:
                    rest = rest.partition(quote)[0]
            words = words_of(rest)
        for place, word in enumerate(words):
            need = requirement(word.rstrip(",."), said)
            if need is None or not (
                place == 0 or need.specifier or need.extras or need.name in modules or is_known(need)
            ):
                break
            yield need
