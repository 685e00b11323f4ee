"""Command lines that only read: the one list of programs, and of the options with which they only read.

An option that is not in the list may write, run a program, or read a file that is not among the paths: a
command with it is no reading command. Left out on purpose: git, whose configuration in a folder names
programs to run (`core.fsmonitor`, `diff.*.textconv`, `core.pager`); awk, sed beyond `1,5p`, less, man
and vi, which can run commands; options that follow links (`grep -R`, `find -L`, `diff -r`).
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, Literal, NamedTuple

from skills_agent.shell.commands import Redirection, SimpleCommand, cd_target, is_option
from skills_agent.shell.wrappers import MAX_WRAPPERS, WRAPPERS, adds_nothing, wrapped
from skills_agent.skills.confined import is_in
from skills_agent.skills.policy.command_patterns import ANY

Operands = Literal["paths", "texts", "a text, then paths", "files"]
"""What stands beside options. `files`: paths of files, no folders."""


class Reading(NamedTuple):
    """How a program only reads."""

    flags: str = ""
    """Short options without a value."""
    values: str = ""
    """Short options with a value that is no path, and that has to be there: else the next word is a path."""
    long: str = ""
    """Long options; `=` after one: it takes a value, `?`: it may have one behind `=`."""
    operands: Operands = "paths"
    numbers: bool = False
    """Whether `-5` is an option."""
    at_most: int | None = None
    """How many operands there may be: a further one would be written."""
    form: str = ""
    """What each text has to match."""
    here: Literal["never", "always", "with -r"] = "never"
    """Whether it reads the folder that it runs in, where no path is given."""


_LINES: Final = r"(?:\d+|\$)(?:,(?:\d+|\$))?[pq]"
_TEXT: Final = Reading(operands="texts")
_SUMS: Final = Reading("btz", long="binary text tag zero")
_GREP: Final = Reading(
    "EFGPivwxcloqsbHhnTUZzaIry", "emABC",
    "regexp= ignore-case no-ignore-case invert-match word-regexp line-regexp count color? colour? "
    "files-without-match files-with-matches max-count= only-matching quiet silent no-messages with-filename "
    "no-filename line-number after-context= before-context= context= text include= exclude= exclude-dir= "
    "recursive null extended-regexp fixed-strings basic-regexp perl-regexp line-buffered byte-offset",
    "a text, then paths", numbers=True, here="with -r",
)  # fmt: skip
_ENDS: Final = Reading("qvz", "nc", "lines= bytes= quiet silent verbose zero-terminated", numbers=True)
READING: Final[Mapping[str, Reading]] = {
    "basename": Reading("az", "s", "multiple suffix= zero", "texts"),
    "cat": Reading("AbeEnstTuv", "", "number show-all number-nonblank squeeze-blank show-ends show-tabs"),
    "cut": Reading("snz", "bcdf", "delimiter= fields= complement only-delimited output-delimiter="),
    "date": Reading("uIR", "d", "utc iso-8601? rfc-3339= date= rfc-email", "texts", form=r"\+.*"),
    "diff": Reading(
        "abBcdeEiNpqstTuwyZ", "UCW",
        "unified? brief side-by-side ignore-all-space ignore-blank-lines ignore-case ignore-space-change "
        "color?",
        "files",
    ),
    "dirname": Reading("z", "", "zero", "texts"),
    "du": Reading(
        "abchkmsSx0", "dtB",
        "all human-readable summarize total max-depth= apparent-size exclude= bytes block-size=",
        here="always",
    ),
    "echo": _TEXT,
    "file": Reading("bhikN0", "", "brief mime mime-type mime-encoding no-pad no-dereference"),
    "find": Reading(),
    "grep": _GREP,
    "head": _ENDS,
    "id": Reading("ugGnr", operands="texts"),
    "jq": Reading(
        "rcnsSejaCMR", "",
        "raw-output compact-output null-input slurp sort-keys exit-status join-output ascii-output "
        "color-output monochrome-output tab raw-input",
        "a text, then paths", form=r"(?s)(?!.*(?:import|include|env|ENV)).*",
    ),
    "ls": Reading(
        "1aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ", "",
        "all almost-all human-readable recursive reverse size inode directory classify? color? full-time "
        "group-directories-first sort= time= time-style= format= ignore= hide= block-size=",
        here="always",
    ),
    "md5sum": _SUMS,
    "printf": _TEXT,
    "pwd": Reading("LP", "", "logical physical"),
    "rg": Reading(
        "FiSsvwxclnNoqpPHIUua0", "emABCgtTrjMd",
        "hidden no-ignore ignore-case smart-case case-sensitive fixed-strings word-regexp count "
        "files-with-matches files-without-match line-number no-line-number glob= iglob= type= type-not= "
        "max-count= after-context= before-context= context= only-matching no-heading heading color= json "
        "multiline max-depth= sort= files regexp= invert-match pcre2 no-filename with-filename stats column "
        "vimgrep trim max-columns=",
        "a text, then paths", here="always",
    ),
    "sed": Reading(
        "nE", "", "quiet silent", "a text, then paths",
        form=rf"{_LINES}(?:;\s*{_LINES})*",
    ),
    "sha256sum": _SUMS,
    "sort": Reading(
        "bdfghiMnRrVcCmsuz", "ktS",
        "reverse numeric-sort human-numeric-sort unique key= field-separator= ignore-case version-sort "
        "general-numeric-sort stable check? month-sort random-sort dictionary-order ignore-leading-blanks",
    ),
    "stat": Reading("ft", "c", "format= printf= terse file-system"),
    "tail": _ENDS,
    "tr": Reading("cCdst", "", "complement delete squeeze-repeats truncate-set1", "texts"),
    "tree": Reading("adfsDhpugtrCFNQ", "LPI", "dirsfirst noreport du prune", here="always"),
    "type": Reading("tapPf", operands="texts"),
    "uname": Reading("asnrvmpio", "", "all kernel-name kernel-release machine operating-system", "texts"),
    "uniq": Reading("cdDuiz", "fsw", "count repeated unique ignore-case", at_most=1),
    "wc": Reading("clmwL", "", "bytes lines chars words max-line-length"),
    "which": Reading("a", "", "all", "texts"),
    "whoami": Reading(operands="texts", at_most=0),
}  # fmt: skip
"""By program, in the form of GNU's and of bash's builtins."""
ALWAYS_READING: Final = frozenset({":", "true", "false", "[", "[[", "test"})
"""Builtins that only say yes or no: every word that looks like a path has to be one that may be read."""
NAMED_BY_VERDICTS: Final = frozenset({*READING, *ALWAYS_READING, *WRAPPERS, "git"})
"""Programs that are judged by their names: whoever runs a line sees to it that these are the system's."""
WRITING_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "file": ("-C", "--compile"),
    "git": ("--output", "--ext-diff", "--upload-pack", "--exec"),
    "git grep": ("-O", "--open-files-in-pager"),
    "rg": ("--pre",),
    "sort": ("-o", "--output", "--compress-program"),
    "tree": ("-o",),
}
"""With what a program that reads writes a file, or runs a program: no `*` of a pattern takes it in."""
_BEGINNING: Final = re.compile(r"[\w./]")
"""How a word begins that is no option, whatever becomes of it."""
FIND_TESTS: Final[Mapping[int, str]] = {
    0: "! ( ) , -a -and -o -or -not -true -false -depth -empty -executable -ls -mount -noleaf -print -print0 "
    "-prune -quit -readable -writable -xdev -nouser -nogroup -daystart",
    1: "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime "
    "-mmin -atime -amin -ctime -cmin -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -printf "
    "-used",
}
"""What `find` takes after its folders, by how many words follow each."""
_FIND: Final = {name: count for count, names in FIND_TESTS.items() for name in names.split()}
_NO_TEXT: Final = frozenset({"-e", "--regexp", "--files"})
"""Options after which `grep` and `rg` take paths alone."""
FILE: Final = "\0"
"""At the end of a path: it has to be a file, as the program would follow links in a folder."""


def may_write(pattern: Sequence[str], command: SimpleCommand) -> bool:
    """Return whether a command may have an option that writes, where a pattern speaks of reading.

    A word that the pattern spells out is meant, and nothing behind `--` is an option.
    """
    program, second = str(command.program), pattern[1] if len(pattern) > 1 else ANY
    if program == "git" and second == ANY:
        return False
    options = (*WRITING_OPTIONS.get(program, ()), *WRITING_OPTIONS.get(f"{program} {second}", ()))
    for word in takewhile(lambda word: word.text != "--", command.words[1:] if options else ()):
        if word.text is None and not _BEGINNING.match(word.shape):
            return True
        if any(is_option(word.text or "", option) for option in options) and word.text not in pattern:
            return True
    reading = READING.get(program)
    if reading is None or not reading.at_most:
        return False
    parsed = _parsed(reading, command.known[1:])  # a further operand is written
    return parsed is None or len(parsed[1]) > reading.at_most


def read_paths(line: Sequence[SimpleCommand] | None) -> list[str] | None:
    """Return the absolute and relative paths that a line reads; None for a line that may do anything else.

    A relative path is given from each folder that its command may run in.
    """
    if not line:
        return None
    paths: list[str] = []
    for command in line:
        found = _paths_of(command)
        if found is None or command.folders is None:
            return None
        paths += [f"{folder}/{path}" if folder and path[:1] != "/" else path
                  for path in found for folder in command.folders]  # fmt: skip
    return paths


def stays_inside(
    paths: Collection[str], workspace: str, start: str, readable: Collection[str], closed: Collection[str]
) -> bool:
    """Return whether all paths are, with links resolved, in the workspace or another readable folder.

    Relative ones begin at `start`.

    Nothing of what is closed may be at or beneath one of them.
    """
    roots = [os.path.realpath(each) for each in (workspace, *readable)]
    for path in paths:
        real = os.path.realpath(os.path.join(start, path.removesuffix(FILE)))  # noqa: PTH118 - `..` stays
        if path.endswith(FILE) and os.path.isdir(real):  # noqa: PTH112
            return False
        if not any(is_in(real, root) for root in roots):
            return False
        if any(is_in(real, shut) or is_in(shut, real) for shut in map(os.path.realpath, closed)):
            return False
    return True


def _paths_of(command: SimpleCommand, depth: int = 0) -> list[str] | None:
    """Return what one command reads; None where it may do anything else."""
    inner = wrapped(command)
    if inner is None or (inner and not adds_nothing(command, inner)) or depth > MAX_WRAPPERS:
        return None
    is_bare = not command.assignments and all(map(_is_quiet, command.redirections))
    known = command.known
    if not is_bare or not known:
        return None
    if (target := cd_target(command)) is not None:
        return [target]
    if adds_nothing(command, inner):
        found = [_paths_of(each, depth + 1) for each in inner]
        return None if None in found else [path for paths in found for path in paths or ()]
    return _paths_of_words(*known) if len(known) == len(command.words) else None


def _is_quiet(redirection: Redirection) -> bool:
    return redirection.is_harmless and not redirection.operator.startswith("<<")


def _paths_of_words(program: str, *words: str) -> list[str] | None:
    if program in ALWAYS_READING:
        return [word for word in words if "/" in word or word == ".."]
    if program == "find":
        return _find_paths(words)
    reading = READING.get(program)
    return _operand_paths(program, reading, words) if reading else None


def _find_paths(words: Sequence[str]) -> list[str] | None:
    start = next((at for at, word in enumerate(words) if word[:1] in {"-", "(", "!", ","}), len(words))
    left = iter(words[start:])
    for word in left:
        count = _FIND.get(word)
        if count is None or sum(1 for _ in zip(range(count), left, strict=False)) < count:
            return None
    return list(words[:start]) or ["."]


def _operand_paths(program: str, reading: Reading, words: Sequence[str]) -> list[str] | None:
    parsed = ([], list(words)) if program == "echo" else _parsed(reading, words)
    if parsed is None:
        return None
    options, operands = parsed
    texts, paths = _split(reading, options, operands)
    # Some programs take `@file` for the words in it, wherever it stands.
    is_spelled = reading.operands == "texts" or not any(
        word.startswith("@") for word in words if word not in texts
    )
    is_known = (
        is_spelled
        and (reading.at_most is None or len(operands) <= reading.at_most)
        and (not reading.form or all(re.fullmatch(reading.form, text) for text in texts))
    )
    if not is_known:
        return None
    if reading.operands == "files":
        return [f"{path}{FILE}" for path in paths]
    is_recursive = reading.here == "with -r" and {"-r", "--recursive"} & set(options)
    return ["."] if not paths and (reading.here == "always" or is_recursive) else paths


def _split(
    reading: Reading, options: Sequence[str], operands: Sequence[str]
) -> tuple[Sequence[str], list[str]]:
    """Return the operands that are text, and those that are paths."""
    if reading.operands == "texts":
        return operands, []
    first = 1 if reading.operands == "a text, then paths" and not _NO_TEXT & set(options) else 0
    return operands[:first], list(operands[first:])


def _parsed(reading: Reading, words: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Return the options, each by itself, and the operands; None for an option that is not in the list."""
    long = {each.rstrip("=?"): each[-1] for each in reading.long.split()}
    options: list[str] = []
    operands: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            return options, [*operands, *left]
        if word.startswith("--"):
            name, equals, _ = word[2:].partition("=")
            kind = long.get(name)
            if kind is None or (equals and kind not in "=?"):
                return None
            if kind == "=" and not equals and next(left, None) is None:
                return None
            options.append(f"--{name}")
        elif word[0:1] == "-" and word != "-":
            named = _short(reading, word[1:], left)
            if named is None:
                return None
            options += named
        else:
            operands.append(word)
    return options, operands


def _short(reading: Reading, letters: str, left: Iterator[str]) -> list[str] | None:
    if reading.numbers and letters.isascii() and letters.isdigit():
        return []
    named = []
    for at, letter in enumerate(letters):
        named.append(f"-{letter}")
        if letter in reading.values:
            return named if at + 1 < len(letters) or next(left, None) is not None else None
        if letter not in reading.flags:
            return None
    return named
