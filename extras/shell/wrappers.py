"""Programs and builtins that run other commands, or change what the next ones do: what is certain of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from skills_agent.shell.commands import UNKNOWN, Assignment, SimpleCommand, cd_target, moved
from skills_agent.shell.shell import take_apart
from skills_agent.shell.words import WILD, Word

CHANGES_SHELL: Final = frozenset(
    {
        ".", "alias", "declare", "enable", "eval", "exec", "export", "getopts", "hash", "let",
        "local", "mapfile", "readarray", "readonly", "set", "shopt", "source", "trap", "typeset",
        "unalias", "unset",
    }
)  # fmt: skip
"""Builtins that change what a later command is."""
RUNS_OTHERS: Final = CHANGES_SHELL | frozenset(
    {
        "arch", "ash", "at", "bash", "batch", "bind", "builtin", "busybox", "bwrap", "caffeinate",
        "chpst", "chronic", "chroot", "chrt", "command", "compgen", "complete", "cpulimit", "csh",
        "daemonize", "dash", "dbus-run-session", "doas", "doit", "dumb-init", "eatmydata", "elvish",
        "entr", "env", "expect", "fakeroot", "faketime", "fc", "find", "firejail", "fish", "flock",
        "gdb", "gosu", "history", "hyperfine", "ifne", "ionice", "jobs", "ksh", "linux32", "linux64",
        "ltrace", "mksh", "nice", "nohup", "nsenter", "nu", "parallel", "perf", "pkexec", "popd",
        "prlimit", "proot", "proxychains", "proxychains4", "pushd", "pwsh", "rbash", "rsh",
        "run-parts", "runuser", "screen", "script", "sem", "setarch", "setpriv", "setsid", "sg", "sh",
        "ssh", "ssh-agent", "start-stop-daemon", "stdbuf", "strace", "su", "su-exec", "sudo",
        "systemd-run", "taskset", "tcsh", "time", "timeout", "tini", "tmux", "torsocks", "toybox",
        "unbuffer", "unshare", "valgrind", "watch", "xargs", "xvfb-run", "zsh",
    }
)  # fmt: skip
"""What runs the commands in its arguments, or changes what a later one is: unclear, unless it is below."""
_EVALUATES: Final = frozenset({"[", "[[", "test", "printf", "read", "wait"})
"""Builtins that take the name of a variable: bash runs what is in the index of one, `a[$(rm)]`."""
_OBEYED: Final = frozenset(
    {
        "BROWSER", "CC", "CDPATH", "CLASSPATH", "CXX", "EDITOR", "ENV", "EXECIGNORE", "GLOBIGNORE",
        "HOME", "HOSTALIASES", "IFS", "INPUTRC", "LOCPATH", "NLSPATH", "OPENSSL_CONF", "PAGER", "PATH",
        "POSIXLY_CORRECT", "PROMPT_COMMAND", "RES_OPTIONS", "SHELL", "SHELLOPTS", "TERMINFO", "TMPDIR",
        "VISUAL",
    }
)  # fmt: skip
_OBEYED_FAMILIES: Final = (
    "ALL_", "AWS_", "BASH", "BUNDLE_", "CARGO", "CMAKE", "DOCKER_", "DOTNET_", "DYLD_", "FTP_", "GCONV_",
    "GEM_", "GIT_", "GO", "GREP_", "HIST", "HTTP", "JAVA", "JDK_", "KUBE", "LD_", "LESS", "LUA", "MAKE",
    "MALLOC_", "MANP", "MANR", "NODE", "NO_PROXY", "NPM", "OPT", "PERL", "PHP", "PIP_", "PKG_", "PS",
    "PYTHON", "RIPGREP", "RSYNC_", "RUBY", "RUST", "R_", "SSH_", "SUDO_", "SYSTEMD_", "TAR_", "UNZIP",
    "UV_", "XDG_", "ZIP", "_JAVA", "all_", "ftp_", "http", "no_proxy", "npm_", "pip_", "yarn_",
)  # fmt: skip
_OBEYED_ENDS: Final = ("_PAGER", "_EDITOR", "_ASKPASS", "_PRELOAD")
"""Variables that bash or programs obey, and so change what is run."""
_HARMLESS: Final = re.compile(r"LANG|LC_[A-Z]+|NO_COLOR|CLICOLOR|FORCE_COLOR|COLUMNS")
_HARMLESS_VALUE: Final = re.compile(r"[\w.@-]*", re.ASCII)
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?[smhd]?")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COUNTS: Final = re.compile(r"%[^%A-Za-z]*[hlLjzt]*n")
"""In a format of `printf`: it writes the number of characters into a variable, as PATH."""
_SET: Final = re.compile(r"[-+][eu]+o?|pipefail|errexit|nounset|-o|\+o")


MAX_WRAPPERS: Final = 8
"""Of wrappers in wrappers: `timeout 5 bash -c …`."""
Wrapped = tuple[SimpleCommand, ...]
"""What a command runs in turn."""


def wrapped(command: SimpleCommand) -> Wrapped | None:
    """Return what a command runs in turn; None where that cannot be told."""
    if any(_is_obeyed(assignment.name) for assignment in command.assignments):
        return None
    if not command.words:
        return ()
    program, words = command.program, command.words[1:]
    name = (program or "").rpartition("/")[2]
    if name in RUNS_OTHERS or not name:
        unwrap = _UNWRAP.get(name) if name == program else None
        return unwrap(command, words) if unwrap else None
    is_unclear = (name in _EVALUATES and not _names_plain_variables(name, words)) or (
        name == "cd" and cd_target(command) is None
    )
    return None if is_unclear else ()


def adds_nothing(command: SimpleCommand, inner: Wrapped) -> bool:
    """Return whether what a wrapper runs is all that counts; `find`, and one that runs nothing, do more."""
    return command.program in {"command", "set"} or (command.program in WRAPPERS - {"find"} and bool(inner))


def _is_obeyed(name: str) -> bool:
    return name in _OBEYED or name.startswith(_OBEYED_FAMILIES) or name.endswith(_OBEYED_ENDS)


def is_harmless_variable(assignment: Assignment) -> bool:
    """Return whether a variable changes nothing but the language and the look of a program's output."""
    value = assignment.value.text
    is_plain = value is not None and bool(_HARMLESS_VALUE.fullmatch(value))
    return is_plain and bool(_HARMLESS.fullmatch(assignment.name))


def _names_plain_variables(name: str, words: Sequence[Word]) -> bool:
    """Return whether a builtin that may take the name of a variable gets none with an index."""
    texts = [word.text for word in words]
    if name == "printf":
        form = next((text for text in texts if text != "--"), "")
        return form is not None and form[:2] != "-v" and not _COUNTS.search(form)
    if name in {"[", "[[", "test"}:
        if name != "[[" and None not in texts:
            return not {"-v", "-R"} & set(texts)
        compared = texts if name == "test" else texts[:-1]
        return (name == "[[" or all(map(_is_one_word, words))) and _is_plain_test(compared)
    return all(text is not None and "[" not in text and not _is_obeyed(text) for text in texts)


def _is_one_word(word: Word) -> bool:
    """Return whether a word stays one when it is expanded."""
    raw = word.raw
    is_quoted = raw[:1] == raw[-1:] == '"' and raw.count('"') == 2 and "@" not in raw
    return word.text is not None or is_quoted


def _is_plain_test(texts: Sequence[str | None]) -> bool:
    """Return whether a test compares text or looks at a file: it may run what is in an index else."""
    match texts[1:] if texts[:1] == ["!"] else texts:
        case [_]:
            return True
        case ["-f" | "-d" | "-e" | "-s" | "-r" | "-w" | "-x" | "-L" | "-h" | "-z" | "-n", _]:
            return True
        case [_, "=" | "==" | "!=", _]:
            return True
    return False


def _inner(command: SimpleCommand, words: Sequence[Word]) -> Wrapped:
    """Return the rest of a wrapper's words as the command that it runs."""
    if not words:
        return ()
    inner = replace(command, words=tuple(words), assignments=(), redirections=())
    return (inner,)


def _after_options(
    words: Sequence[Word], *, flags: str = "", values: Mapping[str, re.Pattern[str]] | None = None
) -> Sequence[Word] | None:
    """Return what follows the options of a wrapper; None for an option that is not known."""
    left = list(words)
    while left and (text := left[0].text) is not None and text.startswith("-"):
        option = left.pop(0).text or ""
        if option == "--":
            break
        short, rest = option[:2], option[2:]
        if values and (pattern := values.get(short)) and option[1:2] != "-":
            value = rest or (left.pop(0).text if left else None)
            if value is None or not pattern.fullmatch(value):
                return None
        elif not (option[1:] and set(option[1:]) <= set(flags)):
            return None
    return left


def _timeout(command: SimpleCommand, words: Sequence[Word]) -> Wrapped | None:
    left = _after_options(words, flags="v", values={"-k": _NUMBER, "-s": _NAME})
    if not left or left[0].text is None or not _NUMBER.fullmatch(left[0].text):
        return None
    return _inner(command, left[1:])


def _plain(command: SimpleCommand, words: Sequence[Word]) -> Wrapped | None:
    left = _after_options(words)
    return None if left is None else _inner(command, left)


def _command(command: SimpleCommand, words: Sequence[Word]) -> Wrapped | None:
    texts = [word.text for word in words]
    if texts[:1] in (["-v"], ["-V"]):
        return ()
    return _plain(command, words)


def _env(command: SimpleCommand, words: Sequence[Word]) -> Wrapped | None:
    left, assignments = list(words), []
    while left and (text := left[0].text) is not None and "=" in text:
        name, _, value = text.partition("=")
        if not _NAME.fullmatch(name):
            return None
        assignments.append(Assignment(name, Word(value, value, value)))
        left.pop(0)
    if not left:
        return ()
    if left[0].text is None or left[0].text.startswith("-"):
        return None
    inner = replace(command, words=tuple(left), assignments=tuple(assignments), redirections=())
    return (inner,)


def _xargs(command: SimpleCommand, words: Sequence[Word]) -> Wrapped | None:
    left = _after_options(words, flags="0rtx", values={"-n": _NUMBER, "-P": _NUMBER, "-L": _NUMBER})
    if left is None:
        return None
    return _inner(command, [*left, UNKNOWN]) if left else ()


def _find(command: SimpleCommand, words: Sequence[Word]) -> Wrapped | None:
    """Return what `find` runs for its files."""
    if any(word.text is None and word.shape[:1] in {WILD, "?", "-", "("} for word in words):
        return None  # it may be `-exec` or `-delete`
    texts = [word.text for word in words]
    commands = []
    at = 0
    while at < len(texts):
        if texts[at] in {"-exec", "-execdir", "-ok", "-okdir"}:
            stop = next((end for end in range(at + 1, len(texts)) if texts[end] in {";", "+"}), None)
            if stop is None or stop == at + 1 or (texts[stop] == "+" and texts[stop - 1] != "{}"):
                return None
            inner = tuple(
                UNKNOWN if word.text is None or "{}" in word.text else word for word in words[at + 1 : stop]
            )
            folders = command.folders if texts[at] in {"-exec", "-ok"} else None
            commands.append(SimpleCommand(words=inner, folders=folders))
            at = stop
        at += 1
    return tuple(commands)


def _shell(command: SimpleCommand, words: Sequence[Word]) -> Wrapped | None:
    texts = [word.text for word in words]
    if len(texts) < 2 or texts[0] != "-c" or texts[1] is None:
        return None
    inner = take_apart(texts[1])
    if inner is None:
        return None
    folders = command.folders
    if folders is not None and len(folders) == 1:
        return moved(inner, folders[0])
    is_moved = any(each.folders != ("",) for each in inner)
    return tuple(replace(each, folders=None if is_moved else folders) for each in inner)


def _set(_: SimpleCommand, words: Sequence[Word]) -> Wrapped | None:
    is_plain = bool(words) and all(word.text and _SET.fullmatch(word.text) for word in words)
    return () if is_plain else None


_Unwrap = Callable[[SimpleCommand, Sequence[Word]], Wrapped | None]
_UNWRAP: Final[Mapping[str, _Unwrap]] = {
    "timeout": _timeout,
    "nohup": _plain,
    "command": _command,
    "env": _env,
    "xargs": _xargs,
    "find": _find,
    "bash": _shell,
    "set": _set,
}
WRAPPERS: Final = frozenset(_UNWRAP)
