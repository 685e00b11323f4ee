"""Which program runs a script."""

import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.errors import ScriptError
from skills_agent.skills.scripts.interpreter import command_for, inline_dependencies

WITH_DEPENDENCIES = '# /// script\n# dependencies = ["requests<3", "rich"]\n# ///\nimport requests\n'
WITHOUT_DEPENDENCIES = '# /// script\n# requires-python = ">=3.11"\n# ///\nprint(1)\n'


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function: the command for a script, where just these programs are installed."""

    def find(name: str, text: str = "", *installed: str, **more: Any) -> list[str]:
        (tmp_path / "programs").mkdir(exist_ok=True)
        for program in installed:
            (tmp_path / "programs" / program).write_text("#!/bin/sh\n")
            (tmp_path / "programs" / program).chmod(0o755)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644)
        found = command_for(tmp_path / name, str(tmp_path / "programs"), **more)
        assert found[-1] == str(tmp_path / name)
        return [word.removeprefix(f"{tmp_path}/programs/") for word in found[:-1]]

    return find


Find = Callable[..., list[str]]


OF_BUN = ("--config=/dev/null", "--env-file=/dev/null")
"""The attack: `preload` in a bunfig.toml of a repository runs there before a trusted skill's script."""


@pytest.mark.parametrize("text", [WITH_DEPENDENCIES, WITHOUT_DEPENDENCIES])
@pytest.mark.parametrize("options", ["--script", "--with rich -p 3.13 --script"])
def test_a_script_of_uv_runs_with_the_agents_python(command: Find, options: str, text: str) -> None:
    """The attack: a repository names an index of packages in uv.toml, or brings a Python in .venv."""
    assert command("a", f"#!/usr/bin/env -S uv run {options}\n{text}", "uv") == [sys.executable]


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
    command: Find, name: str, shebang: str, dependencies: str
) -> None:
    block = f'{shebang}# /// script\n# requires-python = ">=3.99"\n{dependencies}# ///\n'
    said = rf"{name}: it needs Python >=3\.99, .* with Python {platform.python_version()} here\."
    with pytest.raises(ScriptError, match=said):
        command(name, block)


@pytest.mark.parametrize(
    "needs", ["''", "'>=3.11,<4'", "'~=3.11'", "'about 3.99'", "3.99", "'>=3.99'\n# broken"]
)
def test_what_this_python_meets_or_nobody_can_read_is_no_refusal(command: Find, needs: str) -> None:
    assert command("a.py", f"# /// script\n# requires-python = {needs}\n# ///\n") == [sys.executable]


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
    command: Find, name: str, installed: tuple[str, ...], expected: list[str]
) -> None:
    assert command(name, "", *installed) == expected


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.sh", "", "it needs bash or sh, which is not installed here"),
        ("a.js", "", "it needs node or bun, which is not installed here"),
        ("a.rb", "#!/usr/bin/env ruby\n", "it needs ruby, which is not installed here"),
        ("a", "#!/opt/tools/weird-program -x\n", "it needs weird-program, which is not installed here"),
        ("a", "#!./weird-program\n", "it needs weird-program, which is not installed here"),
        *(("a", text, "a: it has no #! line") for text in ("", "puts 1", "#!", "#!/usr/bin/env")),
        ("a", "#!/usr/bin/env -S 'open", "a: it has no #! line"),
    ],
)
def test_a_missing_program_is_named(command: Find, name: str, text: str, said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        command(name, text)


@pytest.mark.parametrize(
    ("shebang", "expected"),
    [
        ("#!/usr/bin/env ruby", ["ruby"]),
        ("#! /usr/bin/env ruby\r", ["ruby"]),
        ("#!/usr/bin/env -S ruby -w --yjit", ["ruby", "-w", "--yjit"]),
        ("#!/somewhere/else/ruby -w -x", ["ruby", "-w -x"]),
    ],
)
def test_other_scripts_run_by_their_first_line(command: Find, shebang: str, expected: list[str]) -> None:
    assert command("tool", f"{shebang}\nputs 1\n", "ruby", "env") == expected


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
def test_approved_packages_run_python_scripts_whatever_names_them(
    command: Find, tmp_path: Path, source: str
) -> None:
    assert command("run.py", source, packages=tmp_path / "env") == [f"{tmp_path}/env/bin/python"]
