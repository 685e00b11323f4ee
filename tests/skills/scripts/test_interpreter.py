"""Which program runs a script."""

import platform
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.interpreter import command_for, inline_dependencies

WITH_DEPENDENCIES = '# /// script\n# dependencies = ["requests<3", "rich"]\n# ///\nimport requests\n'
WITHOUT_DEPENDENCIES = '# /// script\n# requires-python = ">=3.11"\n# ///\nprint(1)\n'


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder to search programs in, empty."""
    folder = tmp_path / "programs"
    folder.mkdir()
    return folder


def install(programs: Path, *names: str) -> None:
    for name in names:
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)


OF_BUN = ("--config=/dev/null", "--env-file=/dev/null")
"""The attack: `preload` in a bunfig.toml of a repository runs there before a trusted skill's script."""


def script(tmp_path: Path, name: str, text: str = "") -> Path:
    path = tmp_path / name
    path.write_text(text)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize("text", [WITH_DEPENDENCIES, WITHOUT_DEPENDENCIES])
@pytest.mark.parametrize("options", ["--script", "--with rich -p 3.13 --script"])
def test_a_script_of_uv_runs_with_the_agents_python(
    tmp_path: Path, programs: Path, options: str, text: str
) -> None:
    """The attack: a repository names an index of packages in uv.toml, or brings a Python in .venv."""
    install(programs, "uv")
    path = script(tmp_path, "a", f"#!/usr/bin/env -S uv run {options}\n{text}")
    assert command_for(path, str(programs)) == [sys.executable, str(path)]


@pytest.mark.parametrize("dependencies", ["", '# dependencies = ["rich"]\n'])
@pytest.mark.parametrize(
    ("name", "shebang"),
    [
        ("a.py", ""),
        ("a", "#!/usr/bin/env python3\n"),
        ("a", "#!/usr/bin/env -S uv run --with rich -p 3.99\n"),
    ],
)
def test_a_script_for_another_python_is_refused_with_both_versions(
    tmp_path: Path, programs: Path, name: str, shebang: str, dependencies: str
) -> None:
    block = f'{shebang}# /// script\n# requires-python = ">=3.99"\n{dependencies}# ///\n'
    path = script(tmp_path, name, block)
    version = platform.python_version()
    with pytest.raises(
        ScriptError, match=rf"{name}: it needs Python >=3\.99, .* with Python {version} here\."
    ):
        command_for(path, str(programs))


@pytest.mark.parametrize(
    "needs", ["''", "'>=3.11,<4'", "'~=3.11'", "'about 3.99'", "3.99", "'>=3.99'\n# broken"]
)
def test_what_this_python_meets_or_nobody_can_read_is_no_refusal(
    tmp_path: Path, programs: Path, needs: str
) -> None:
    path = script(tmp_path, "a.py", f"# /// script\n# requires-python = {needs}\n# ///\n")
    assert command_for(path, str(programs)) == [sys.executable, str(path)]


@pytest.mark.parametrize(
    ("name", "installed", "expected"),
    [
        ("a.sh", ("sh", "bash"), ["bash"]),
        ("a.sh", ("sh",), ["sh"]),
        ("A.SH", ("bash",), ["bash"]),
        ("a.js", ("node", "bun"), ["node"]),
        ("a.mjs", ("bun",), ["bun", *OF_BUN]),
        ("a.ts", ("node", "bun"), ["bun", *OF_BUN]),
        ("a.mts", ("node",), ["node", "--experimental-strip-types"]),
    ],
)
def test_the_extension_chooses_the_program(
    tmp_path: Path, programs: Path, name: str, installed: tuple[str, ...], expected: list[str]
) -> None:
    install(programs, *installed)
    program, *options = expected
    path = script(tmp_path, name)
    assert command_for(path, str(programs)) == [str(programs / program), *options, str(path)]


@pytest.mark.parametrize(
    ("name", "text", "needs"),
    [
        ("a.sh", "", "bash or sh"),
        ("a.js", "", "node or bun"),
        ("a.rb", "#!/usr/bin/env ruby\n", "ruby"),
        ("a", "#!/opt/tools/weird-program -x\n", "weird-program"),
        ("a", "#!./weird-program\n", "weird-program"),
    ],
)
def test_a_missing_program_is_named(tmp_path: Path, programs: Path, name: str, text: str, needs: str) -> None:
    with pytest.raises(ScriptError, match=f"it needs {needs}, which is not installed here"):
        command_for(script(tmp_path, name, text), str(programs))


@pytest.mark.parametrize(
    ("shebang", "expected"),
    [
        ("#!/usr/bin/env ruby", ["ruby"]),
        ("#! /usr/bin/env ruby\r", ["ruby"]),
        ("#!/usr/bin/env -S ruby -w --yjit", ["ruby", "-w", "--yjit"]),
        ("#!/somewhere/else/ruby -w -x", ["ruby", "-w -x"]),
    ],
)
def test_other_scripts_run_by_their_first_line(
    tmp_path: Path, programs: Path, shebang: str, expected: list[str]
) -> None:
    install(programs, "ruby", "env")
    path = script(tmp_path, "tool", f"{shebang}\nputs 1\n")
    command = [str(programs / word) if word in {"ruby", "env"} else word for word in expected]
    assert command_for(path, str(programs)) == [*command, str(path)]


@pytest.mark.parametrize("text", ["", "puts 1", "#!", "#!/usr/bin/env", "#!/usr/bin/env -S 'open"])
def test_a_script_that_names_no_program_is_refused(tmp_path: Path, programs: Path, text: str) -> None:
    with pytest.raises(ScriptError, match=r"tool: it has no #! line"):
        command_for(script(tmp_path, "tool", text), str(programs))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# /// script\n# dependencies = []\n", []),
        ("# /// script\n#\n# dependencies = ['a']\n#\n# ///", ["a"]),
        ("# /// pyproject\n# dependencies = ['a']\n# ///", []),
        ("x = 1\n# /// script\n# dependencies = ['a', 'b']\n# ///\n", ["a", "b"]),
        ("# /// script\n# dependencies = ['a']\n# ///\n# # ///\n", ["a"]),
        ("# /// script\n# dependencies = nonsense\n# ///", []),
        ("# /// script\n# dependencies = 'a'\n# ///", []),
        ("# /// script\n#dependencies = ['a']\n# ///", []),
    ],
)
def test_inline_metadata_is_read_as_its_specification_says(source: str, expected: list[str]) -> None:
    assert inline_dependencies(source) == expected


@given(
    st.lists(st.sampled_from(["# /// script", "# ///", "#", "# a = 1", "# [", "x", "", "#x"]), max_size=12)
)
def test_inline_metadata_of_any_shape_is_read_without_failing(lines: list[str]) -> None:
    assert inline_dependencies("\n".join(lines)) == []


@pytest.mark.parametrize(
    "source", ["print()\n", "# /// script\n# dependencies = ['outer']\n# ///\n", "#!/usr/bin/env python3\n"]
)
def test_approved_packages_run_python_scripts_whatever_names_them(tmp_path: Path, source: str) -> None:
    script = tmp_path / "run.py"
    script.write_text(source)
    assert command_for(script, packages=tmp_path / "env") == [f"{tmp_path}/env/bin/python", str(script)]
