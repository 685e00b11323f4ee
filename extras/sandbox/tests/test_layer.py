"""The change list of what scripts wrote over a folder, or in a copy, through overlays that are mounted."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from extras.sandbox.tests.overlay import Overlay, overlay, users
from skills_agent.sandbox.layer import Layer, changes, diff_of, start_of
from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.changes import Change

COPY = -1
SIGNS = {"added": "+", "changed": "~", "removed": "-"}
BOTH_VIEWS = pytest.mark.parametrize("over", [*users()[:1], COPY], ids=["overlay", "copy"], indirect=True)
ALL_VIEWS = pytest.mark.parametrize("over", [*users(), COPY], ids=str, indirect=True)


@pytest.fixture(params=users(), ids=lambda user: f"uid-{user}")
def over(request: pytest.FixtureRequest) -> Iterator[Overlay]:
    with overlay(
        users()[-1] if request.param == COPY else request.param, copied=request.param == COPY
    ) as made:
        yield made


def told(over: Overlay) -> list[str]:
    """Return changes as words: `+ file a`."""
    return [f"{SIGNS[each.act]} {each.kind} {each.path}" for each in over.changes()]


BEFORE = """
echo a > a; echo b > b; mkdir -p d/e empty; echo c > d/c; echo e > d/e/f; ln -s a link; mkfifo pipe
printf '#!/bin/sh' > x; chmod 755 x
"""
SCRIPTS = {
    "": [],
    "cat a d/e/f; ls -R": [],
    "touch a d/c d/new; rm d/new; chmod 755 d; echo a > a": [],
    "mv a a2; mv a2 a; rm b; echo b > b": [],
    "rm link; ln -s a link; rm pipe; mkfifo pipe": [],
    "rm -r d; mkdir d d/e; echo c > d/c; echo e > d/e/f": [],
    "echo more >> a; echo new > n": ["~ file a", "+ file n"],
    "printf z > b": ["~ file b"],
    "echo A > a": ["~ file a"],
    "chmod 600 a; chmod 755 b; chmod 700 d": ["~ file a", "~ executable b", "~ folder d"],
    "chmod 644 x; cp x y": ["+ file y", "~ file x"],
    "mkdir -p p/q; echo z > p/q/z": ["+ folder p", "+ folder p/q", "+ file p/q/z"],
    "rm -r d empty a": ["- file a", "- folder d", "- folder empty"],
    "rm -r d; mkdir d; echo e > d/new": ["+ file d/new", "- file d/c", "- folder d/e"],
    "rm -r d; mkdir -p d/e; echo n > d/e/n": ["- file d/c", "- file d/e/f", "+ file d/e/n"],
    "rm a; mkdir a; echo z > a/z": ["- file a", "+ folder a", "+ file a/z"],
    "rm -r d; ln -s /etc d": ["- folder d", "+ link d"],
    "rm -r d; echo d > d": ["- folder d", "+ file d"],
    "rm link; ln -s b link; rm x; ln -s link x": ["~ link link", "- executable x", "+ link x"],
    "rm link; mkdir link; echo z > link/z": ["- link link", "+ folder link", "+ file link/z"],
    "mkfifo d/p; chmod 600 pipe; rm b; mkfifo b": [
        *("- file b", "+ special b", "+ special d/p", "~ special pipe"),
    ],
    "ln a d/hard; echo z >> d/hard": ["~ file a", "+ file d/hard"],
    "mkdir new; mv a b d new/": [
        *("- file a", "- file b", "- folder d", "+ folder new", "+ file new/a", "+ file new/b"),
        *("+ folder new/d", "+ file new/d/c", "+ folder new/d/e", "+ file new/d/e/f"),
    ],
    "mkdir -p dark/in; echo z > dark/in/z; chmod 000 dark/in/z dark/in; chmod 300 dark": [
        *("+ folder dark", "+ folder dark/in", "+ file dark/in/z"),
    ],
    "echo z > d/e/z; chmod 000 d/e": ["~ folder d/e", "+ file d/e/z"],
    "echo z > new; rm a; chmod 000 .": ["+ file new", "- file a"],
}  # fmt: skip


@ALL_VIEWS
@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_script_changed_is_told(over: Overlay, script: str) -> None:
    over.before(BEFORE)
    over.run(script)

    def look() -> None:
        assert sorted(told(over)) == sorted(SCRIPTS[script])

    over.call(look)


@BOTH_VIEWS
def test_what_was_removed_is_told_before_what_came_in_its_place(over: Overlay) -> None:
    over.before(BEFORE)
    over.run("rm -r d a; mkdir a; ln -s b d; mkdir -p z/y; echo > z/y/x")
    assert [each for each in told(over) if each[-1] in "adx"] == [
        *("- file a", "+ folder a", "- folder d", "+ link d", "+ file z/y/x"),
    ]


@BOTH_VIEWS
def test_a_change_has_size_digest_target_and_mode(over: Overlay) -> None:
    over.before("echo old > gone; echo old > bits")
    large = b"x" * 1_000_000
    over.run("head -c 1000000 /dev/zero | tr '\\0' x > large; ln -s ../out link; rm gone; chmod 4711 bits")
    digest = sha256(b"old\n").hexdigest()
    assert over.changes() == [
        Change("bits", "changed", "executable", 4, digest, mode=0o4711),
        Change("gone", "removed", "file", 4),
        Change("large", "added", "file", len(large), sha256(large).hexdigest(), mode=0o644),
        Change("link", "added", "link", target="../out", mode=0o777),
    ]


@ALL_VIEWS
def test_bits_are_told_as_the_script_left_them_though_this_user_gets_the_rights(over: Overlay) -> None:
    over.run("mkdir dark; echo z > dark/z; chmod 000 dark/z dark")

    def look() -> None:
        found = over.changes()
        assert [each.mode for each in found] == [0, 0]
        assert start_of(over.layer, found[1], 9) == b"z\n"

    over.call(look)


@BOTH_VIEWS
def test_names_of_all_bytes_are_told(over: Overlay) -> None:
    name = "line\nend\x1b[2J\udcff\udcfe 'quote"
    over.run("python3 -c \"import os; os.mkdir(b'line\\nend\\x1b[2J\\xff\\xfe \\'quote')\"")
    assert [each.path for each in over.changes()] == [name]


SET_ATTRIBUTES = """python3 -c "
import os, stat
for name in ('opaque', 'redirect', 'metacopy', 'whiteout', 'overlay.opaque', 'origin', 'impure'):
    for kind in ('user', 'trusted'):
        for path in ('d', 'a', 'new', '.'):
            try: os.setxattr(path, f'{kind}.overlay.{name}', b'y')
            except OSError: pass
for mode, device in ((stat.S_IFCHR, 0), (stat.S_IFCHR, 1), (stat.S_IFREG, 0)):
    try: os.mknod('made', mode | 0o600, device); os.unlink('made'); print('made', mode, device)
    except OSError: pass
"
"""


def test_a_script_cannot_pretend_that_something_was_removed(over: Overlay) -> None:
    over.before("mkdir d; echo x > d/x; echo a > a")
    printed = over.run(f"mkdir new; {SET_ATTRIBUTES}")
    assert told(over) == ["+ folder new"]
    assert printed == f"made {0o100000} 0\n"


def test_what_somebody_else_removed_or_changed_meanwhile_is_compared_as_it_is_now(over: Overlay) -> None:
    over.before("echo x > a; echo x > b; mkdir -p c/d; echo x > c/x; echo x > e")
    over.run("rm a; echo more >> b; echo y > c/y; echo y > c/d/y; echo new > e")
    over.before("rm a; echo more >> b; rm -r c; ln -s /etc c; rm e; mkfifo e")
    assert told(over) == [
        *("- link c", "+ folder c", "+ folder c/d", "+ file c/d/y", "+ file c/y", "- special e", "+ file e"),
    ]


SWAP = """
import os, sys
lower, outside = sys.argv[1:]
while True:
    for name in ("d", "f"):
        os.rename(f"{lower}/{name}", f"{outside}/kept")
        os.symlink(f"{outside}/{name}", f"{lower}/{name}")
        os.unlink(f"{lower}/{name}")
        os.rename(f"{outside}/kept", f"{lower}/{name}")
"""


@ALL_VIEWS
def test_nothing_is_reached_through_a_link_that_comes_meanwhile(over: Overlay) -> None:
    """Somebody swaps the real files for links to others with what the script wrote: it stays a change.

    Else the secret of another folder would be no change, or stand in a diff.
    """
    outside = over.place / "outside"
    (outside / "d").mkdir(parents=True)
    for path in ("d/x", "f"):
        (outside / path).write_text("y\n")
    over.before("mkdir d; echo x > d/x; echo x > f")
    over.run("echo y > d/x; echo y > f")
    with subprocess.Popen([sys.executable, "-c", SWAP, str(over.lower), str(outside)]) as swapping:
        try:
            for _ in range(1_000):
                found = [each for each in over.changes() if each.act != "removed"]
                assert {"d/x", "f"} <= {each.path for each in found}
                assert "its mode" not in "".join(diff_of(over.layer, each) for each in found)
        finally:
            swapping.kill()


@BOTH_VIEWS
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import os\nfor _ in range(201): os.mkdir('d'); os.chdir('d')", "200 folders in one another"),
        ("import os\nfor _ in range(40): os.mkdir('d' * 200); os.chdir('d' * 200)", "3,500 bytes"),
        pytest.param(
            "import os\nopen('f', 'w')\nfor n in range(50_001): os.symlink('f', str(n))",
            "50,000 changes",
            marks=pytest.mark.slow,
        ),
        ("for n in range(2): open(f'f{n}', 'w').truncate(n * 5 << 30)", "more than 4 GiB"),
    ],
)
def test_more_than_can_be_looked_at_is_refused(over: Overlay, script: str, words: str) -> None:
    over.run(f'python3 -c "{script}"')
    with pytest.raises(ScriptError, match=words):
        over.changes()


@BOTH_VIEWS
def test_the_most_that_is_looked_at_is(over: Overlay) -> None:
    script = "import os\nfor _ in range(200): os.mkdir('d'); os.chdir('d')"
    over.run(f'python3 -c "{script}"')
    assert len(over.changes()) == 200
    assert len([*Path("/proc/self/fd").iterdir()]) < 200


def test_what_cannot_be_read_is_refused(over: Overlay) -> None:
    def is_refused(layer: Layer) -> None:
        with pytest.raises(ScriptError, match="cannot be compared"):
            changes(layer)

    over.before("ln -s /etc ../upper/link")
    for lower, content in (("missing", "upper"), ("lower", "upper/link")):
        is_refused(Layer(over.place / lower, over.place / content, 0))
    (over.layer.content / "roots").mkdir(0o700)
    if over.user:
        over.call(lambda: is_refused(over.layer))


def test_it_costs_what_was_written(over: Overlay) -> None:
    """The real folder's other files are not even looked at: they could not be."""
    over.before("mkdir other mine; echo x > other/x; echo x > mine/x")
    over.run("echo y > mine/y")
    shutil.rmtree(over.lower / "other")
    (over.lower / "other").symlink_to("/nowhere")
    assert told(over) == ["+ file mine/y"]


DIFFS = {
    "echo two >> a": "@@ -1 +1,2 @@\n one\n+two\n",
    "rm a": "@@ -1 +0,0 @@\n-one\n",
    "printf new > n": "@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n",
    "chmod 600 a": "its mode is 600 now",
    "chmod 700 d": "folder, its mode is 700 now",
    ": > n": "empty",
    "printf 'a\\0b' > a": "binary, 3 bytes",
    "head -c 1000001 /dev/zero > n": "large, 1,000,001 bytes",
    "ln -s /etc n": "link to /etc",
    "rm link": "link",
    "mkdir n": "folder",
    "mkfifo n": "special",
}


@pytest.mark.parametrize("script", DIFFS)
def test_a_person_reads_what_changed(over: Overlay, script: str) -> None:
    over.before("echo one > a; mkdir d; ln -s a link")
    over.run(script)
    (change,) = over.changes()
    assert diff_of(over.layer, change) == DIFFS[script]
