"""Which script of a skill is meant: the spellings of real instructions, and none that leads elsewhere."""

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.spelling import ScriptCall, read_spelling

FILES = ("scripts/x.py", "scripts/run.sh", "scripts/deep/y.ts", "tools/x.py", "scripts/a b.py", "z.py")
NAMES = ("report", "report-folder")


def spelled(
    path: str, args: Sequence[str] = (), files: Collection[str] = FILES, names: Sequence[str] = NAMES
) -> ScriptCall:
    scripts = [each for each in files if each.startswith("scripts/")]
    return read_spelling(
        path, args, names=names, is_file=lambda path: path.removeprefix("./") in files, scripts=scripts
    )


@pytest.mark.parametrize(
    "path",
    [
        "scripts/x.py", "./scripts/x.py", "x.py", "./x.py", "skills/report/scripts/x.py",
        ".claude/skills/report/scripts/x.py", "~/.claude/skills/report/scripts/x.py",
        "$HOME/.claude/skills/report-folder/scripts/x.py", "/Users/somebody/src/skills/report/scripts/x.py",
        "report/scripts/x.py", "{baseDir}/scripts/x.py", "${CLAUDE_SKILL_DIR}/scripts/x.py",
        "$SKILL_DIR/scripts/x.py", "${CLAUDE_PLUGIN_ROOT}/skills/report/scripts/x.py", "python3 scripts/x.py",
        "/usr/bin/python3.12 skills/report/scripts/x.py", "uv run python {baseDir}/scripts/x.py",
        'python "scripts/x.py"',
    ],
)  # fmt: skip
def test_a_spelling_means_the_script_of_the_skill(path: str) -> None:
    meant = spelled(path, ["1"])
    assert (meant.path.removeprefix("./"), meant.args) == ("scripts/x.py", ("1",))


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("bash scripts/run.sh --all 'a b'", ScriptCall("scripts/run.sh", ("--all", "a b"))),
        ("npx tsx scripts/deep/y.ts q", ScriptCall("scripts/deep/y.ts", ("q",))),
        ("scripts/run.sh now", ScriptCall("scripts/run.sh", ("now",))),
        ("scripts/a b.py", ScriptCall("scripts/a b.py", ())),
        ("python3 'scripts/a b.py' c", ScriptCall("scripts/a b.py", ("c",))),
    ],
)
def test_words_behind_the_script_are_its_arguments(path: str, meant: ScriptCall) -> None:
    assert spelled(path) == meant


def test_a_name_that_several_scripts_have_is_refused_with_their_paths() -> None:
    with pytest.raises(ScriptError, match=r"scripts/a/x\.py, scripts/b/x\.py"):
        spelled("python3 x.py", files=("scripts/a/x.py", "scripts/b/x.py"))


@pytest.mark.parametrize(
    "path",
    [
        "skills/other/scripts/x.py", "../report/scripts/x.py", "skills/report/../report/scripts/x.py",
        "/etc/passwd", "python3 -c 'print(1)' scripts/x.py", "python3 -m scripts.x", "rm scripts/x.py",
        "no/report/scripts/x.py", "other/x.py", "python3", "", "scripts/x.py\0", "python3 'scripts/x.py",
    ],
)  # fmt: skip
def test_what_is_not_understood_stays_as_it_is(path: str) -> None:
    assert spelled(path) == ScriptCall(path, ())


_PARTS = st.sampled_from(
    [
        "skills", "report", "scripts", "x.py", "..", ".", "", "~", "/", "python3 ", "{baseDir}", "x y",
        "run.sh", "\0",
    ]
)  # fmt: skip


@given(
    st.lists(_PARTS | st.text(max_size=3), max_size=8).map("/".join),
    st.lists(st.text(max_size=3), max_size=2),
)
def test_whatever_is_written_means_a_file_of_the_skill_or_itself(path: str, args: list[str]) -> None:
    try:
        meant = spelled(path, args)
    except ScriptError:
        return
    assert meant.path.removeprefix("./") in FILES or meant == (path, tuple(args))
    if args:
        assert meant.args == tuple(args)
