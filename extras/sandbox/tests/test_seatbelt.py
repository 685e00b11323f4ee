"""The profile for programs that Seatbelt confines, read as the kernel of macOS reads it: no Mac is needed."""

import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest

from skills_agent.sandbox.choice import ChosenRunner, sandboxes
from skills_agent.sandbox.seatbelt import SANDBOX_EXEC, launcher
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.runner import ScriptRequest

TOKEN: Final = re.compile(r';.*|"[^"]*"|[()]|[^\s()";]+')
HOSTILE: Final = '/w/a")) (allow default) ("\n;b=c -D (param "MARK") \\'
ENDS: Final = {"subpath": "/", "sysctl-name-prefix": ""}
READ: Final = [Path("/w"), Path("/w/.agent/skill"), Path("/given")]
WRITE: Final = [Path("/copy"), Path("/tmp/run"), Path(HOSTILE)]


def _fits(name: str, values: dict[str, str], kind: str, what: Any, *_: str) -> bool:
    meant = values[what[1]] if isinstance(what, list) else what
    return name == meant or (kind in ENDS and name.startswith(meant + ENDS[kind]))


def allows(command: list[str], act: str, name: str) -> bool:
    """Return what the last rule says that is about an act, and about a path or another name."""
    _, _, text, *options = command
    values = dict(each.split("=", 1) for each in options[1::2])
    stack: list[list[Any]] = [[]]
    for token in (each for each in TOKEN.findall(text) if not each.startswith(";")):
        if token == "(":
            stack.append([])
        elif token == ")":
            stack[-2].append(stack.pop())
        else:
            stack[-1].append(token.strip('"'))
    (forms,) = stack  # else a bracket has no other one
    decision = "allow"
    for form in forms:
        for verdict, *words in [form] if form[0] != "if" else form[2][1:] * (values["NETWORK"] == "open"):
            acts = [each for each in words if isinstance(each, str)]
            is_act = any(each == "default" or fnmatchcase(act, each) for each in acts)
            filters = words[len(acts) :]
            if is_act and (not filters or any(_fits(name, values, *each) for each in filters)):
                decision = verdict
    return decision == "allow"


@pytest.mark.parametrize(
    ("acts", "names", "is_allowed"),
    [
        ("file-read-data process-exec*", "/w/x /w/.agent/skill/x /given /copy/x /usr/bin/env", True),
        ("file-write-data file-write-create", "/copy /copy/x /tmp/run/x", True),
        ("file-read-data", "/ /dev/null /private/etc/hosts /opt/homebrew/etc/ca-certificates/x", True),
        ("file-read-metadata file-test-existence", "/home /w/.agent", True),
        ("file-read-data process-exec*", "/w/.agent/x /w/key /x /copyx /opt/local/var/x /etc/x", False),
        ("file-read-data", "/System/Volumes/Data/Users/x /Library/Keychains/x /private/var/x", False),
        ("file-write-data file-write-create file-write-mode", "/w/x /w/.agent/skill/x /usr/x /tmp", False),
        ("file-write-setugid mach-lookup sysctl-read", "/copy/x m.not com.apple.trustd kern.procargs", False),
        ("network-outbound network-bind system-socket lsopen ipc-posix-shm file-link", "x ip /x", False),
    ],
)  # fmt: skip
def test_what_a_program_may_do(acts: str, names: str, is_allowed: bool) -> None:
    command = launcher(READ, WRITE, closed=[Path("/w/.agent"), Path("/w/key")], mark="m")
    tried = {(act, name): allows(command, act, name) for act in acts.split() for name in names.split()}
    assert tried == dict.fromkeys(tried, is_allowed)
    assert allows(command, "mach-lookup", "m")
    assert allows(launcher(READ, [], network="open", mark="m"), "network-outbound", "ip")


def test_names_are_handed_over_beside_the_profile() -> None:
    harmless, hostile = (launcher([], [path], mark="m") for path in (Path("/w/a"), Path(HOSTILE)))
    assert [a for a, b in zip(hostile, harmless, strict=True) if a != b] == [f"WRITE0={HOSTILE}"]


@pytest.mark.parametrize("programs", [[Path("/opt/git")], []])
def test_beside_git_nothing_is_executed(programs: list[Path]) -> None:
    command = launcher(READ, WRITE, programs=programs, mark="m")
    tried = [allows(command, "process-exec-interpreter", name) for name in ("/opt/git", "/copy/x", "/bin/sh")]
    assert tried == [bool(programs), False, False]
    assert allows(command, "file-read-data", "/copy/x")


def test_the_port_of_the_proxy_alone_is_opened() -> None:
    command = launcher(READ, WRITE, network="proxy", mark="m")
    command[command.index(SANDBOX_EXEC)] = "/bin/echo"
    told = subprocess.check_output(command, env={"https_proxy": "http://127.0.0.1:4711"}, text=True)
    assert (
        '(deny file-write-setugid)\n(allow network-outbound (remote ip "localhost:4711")) -D MARK=m ' in told
    )


@pytest.mark.skipif(Path(SANDBOX_EXEC).exists(), reason="Seatbelt is there")
def test_on_a_mac_no_other_sandbox_is_asked(tmp_path: Path) -> None:
    made = [kind(workspace=tmp_path, environment={"PATH": "/bin"}) for kind in sandboxes("darwin")]
    for ask in (ChosenRunner(made, None).run, ChosenRunner(made, None).preflight):
        with pytest.raises(ScriptError, match=r"require.*Seatbelt is not there"):
            ask(ScriptRequest("", None, ("true",), None, tmp_path))
