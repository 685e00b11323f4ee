"""Which modules a Python script imports."""

import ast
import sys
import warnings

from hypothesis import given
from hypothesis import strategies as st

from skills_agent.needs.imports import imports_of

SCRIPT = '''\
"""Usage:
import nothing
"""
from __future__ import annotations
import os, numpy as np, PIL.Image  # import commented
from yaml import (
    safe_load,
)
from .neighbour import part
TEXT = """
import quoted
"""
try:
    import tomllib
    import orjson
except ImportError:
    orjson = None
try:
    import pandas as pd
except ImportError:
    print("pip install pandas")
    sys.exit(1)
if TYPE_CHECKING:
    import typeshed
def late():
    import requests
'''


def test_what_a_script_cannot_do_without_is_certain() -> None:
    found = [(each.module, each.line, each.is_certain, each.is_optional) for each in imports_of(SCRIPT)]
    assert found == [
        ("numpy", 5, True, False),
        ("PIL", 5, True, False),
        ("yaml", 6, True, False),
        ("pandas", 19, True, False),
        ("requests", 26, False, False),
        ("orjson", 15, False, True),
    ]


def test_what_is_imported_in_place_of_another_module_is_no_import() -> None:
    source = "try:\n    import tomllib\nexcept ImportError:\n    import tomli as tomllib\n"
    assert imports_of(source) == ()


def test_a_text_that_would_crash_a_compiler_is_read() -> None:
    hostile = "import first\n" + "(" * 200_000 + "\nx = " + "-" * 100_000 + "1\n" + "'''\\" * 50_000
    assert [each.module for each in imports_of(hostile)] == ["first"]


def test_thousands_of_imports_in_one_block_are_read_once() -> None:
    tries = "try:\n" + "    import first\n" * 15_000 + "except ImportError:\n    raise\n"
    line = "try:\n    import second\nexcept ImportError:\n    raise\nexcept " + "ImportError " * 20_000 + "\n"
    assert [each.module for each in imports_of(line + tries)] == ["second", "first"]


@given(st.text(alphabet="import fromx.,()'\"\\#:\n\t =", max_size=200))
def test_any_text_is_read(text: str) -> None:
    for each in imports_of(text):
        assert each.module.isidentifier()
        assert 1 <= each.line <= text.count("\n") + 1


PARTS = (
    "import yaml",
    "from yaml import x",
    "import os, numpy.linalg as n",
    "x = '''\nimport z\n'''",
    "y = 1",
)


@given(st.lists(st.sampled_from(PARTS)), st.booleans())
def test_it_finds_what_the_compiler_finds(statements: list[str], in_function: bool) -> None:
    source = "\n".join(statements) + "\n"
    if in_function:
        source = "def f():\n    pass\n" + "".join(f"    {each}\n" for each in statements if "'" not in each)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = list(ast.walk(ast.parse(source)))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    expected = {name.split(".")[0] for name in modules} - sys.stdlib_module_names
    assert {each.module for each in imports_of(source)} == expected
