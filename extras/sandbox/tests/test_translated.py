"""Paths of a copy that a run works in: translated in its command, and in what it leaves."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from skills_agent.sandbox import landlock
from skills_agent.sandbox.landlock import LandlockRunner
from skills_agent.sandbox.translated import MAX_TEXT, replacement, translate_file, translation
from skills_agent.skills.scripts.runner import ScriptRequest

PATHS = {"/w": "/copy/1", "/w/.agent": "/w/.agent", "/w/.agent/work/t": "/copy/2", "/tmp": "/tmp/run/tmp"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/w", "/copy/1"),
        ("cat '/w/a b' >/w/c;ls /w", "cat '/copy/1/a b' >/copy/1/c;ls /copy/1"),
        ("--out=/w/x:/w/bin", "--out=/copy/1/x:/copy/1/bin"),
        ("file:///w/x", "file:///copy/1/x"),
        ("/w/.agent/s /w/.agents /w/.agent/work/t/x", "/w/.agent/s /copy/1/.agents /copy/2/x"),
        ("/w2 /w-x /w.x /home/w a/w", "/w2 /w-x /w.x /home/w a/w"),
        ("echo >/tmp/x; cat /var/tmp/x", "echo >/tmp/run/tmp/x; cat /var/tmp/x"),
    ],
)
def test_a_command_names_the_copy(text: str, expected: str) -> None:
    assert translation(PATHS)(text) == expected


MAKE: Final = r"""
python3 -m venv --without-pip .venv
cat <<END >tool
#!$PWD/.venv/bin/python
import sys; print(sys.prefix); open(sys.prefix + "/made", "a").write("x")
END
chmod +x tool; mv tool .venv/bin; ln -s "$PWD/.venv/bin/tool" link
"""


@pytest.mark.skipif(landlock.probe().program is None, reason=landlock.probe().reason)
def test_a_virtual_environment_works_in_a_run_and_where_it_is_applied(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    runner = LandlockRunner(workspace=work, environment=environment)
    for command in (MAKE, ".venv/bin/tool"):
        args = ("bash", "-c", command)
        result = runner.run(ScriptRequest("", None, args, None, work, command=command))
        assert result.exit_code == 0, result.stderr
    assert result.stdout == subprocess.check_output([work / "link"], text=True) == f"{work}/.venv\n"
    assert (work / ".venv/made").read_text() == "xx"


def test_what_is_no_text_or_large_stays_as_it_is(tmp_path: Path) -> None:
    content = os.fsencode(tmp_path)
    files = {
        "binary": content + b"\0",
        "large": content.ljust(MAX_TEXT + 1),
        "text": content,
        os.fsdecode(b"\xff\n"): content,
    }
    for name, each in files.items():
        (tmp_path / name).write_bytes(each)
    os.mkfifo(tmp_path / "fifo")
    os.link(tmp_path / "text", tmp_path.parent / f"{tmp_path.name}-other")
    (tmp_path / "text").chmod(0o640)
    for path in tmp_path.iterdir():
        translate_file(path, replacement({content: b"/real"}))
    changed = dict.fromkeys(("text", os.fsdecode(b"\xff\n")), b"/real")
    assert {name: (tmp_path / name).read_bytes() for name in files} == files | changed
    assert (tmp_path / "text").stat().st_mode & 0o777 == 0o640
    assert (tmp_path.parent / f"{tmp_path.name}-other").read_bytes() == content
