"""Which packages a script for Node imports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.needs.imports import packages_imported


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a from 'aa/b';import \"side\"\nexport * from 'exp'", ["aa", "side", "exp"]),
        ("import {\n x as y,\n z\n} from '@s/no'\nimport d3, * as e from'd3'", ["@s/no", "d3"]),
        ("const b = require('bb')\nconst {\n q\n} = require(\"multi\")", ["bb", "multi"]),
        ("const c = await import('cc')\nconst f = () => require('lazy')", ["cc", "lazy"]),
        ("import fs from 'fs'; import p from 'node:path'; require('./x'); import '../y.js'", []),
        ("import u from 'https://x/y'; import '#in'; import d from '@/alias'; import '/z'", []),
        ("// import n from 'a'\n/* require('b') */", []),
        ("import type { T } from 'types'; import z from 'zz'", ["zz"]),
        ("x.require('c'); foo.import('d'); export const bar = 'a'; export default 'b'", []),
        ("import x = require('ts')", ["ts"]),
    ],
)
def test_imports_are_read(source: str, expected: list[str]) -> None:
    assert [each.module for each in packages_imported(source)] == expected


def test_what_a_try_does_without_is_optional_and_lines_are_counted_from_one() -> None:
    found = packages_imported("import 'a'\n/*\n*/try { require('b') } catch { }\nimport 'c'\n")
    assert [(each.module, each.line, each.is_optional) for each in found] == [
        ("a", 1, False),
        ("b", 3, True),
        ("c", 4, False),
    ]


@pytest.mark.parametrize("unit", ["/*", "import ", "require(", "try {", "from '", "import type x"])
def test_a_text_that_is_made_to_take_long_does_not(unit: str) -> None:
    assert len(packages_imported(unit * (256 * 1024 // len(unit)))) <= 1


@given(st.text() | st.text(alphabet="import from requ'\"`{}()/*\n\\tycach$;", max_size=300))
def test_any_text_is_read(text: str) -> None:
    for each in packages_imported(text):
        assert each.module.isascii()
        assert 1 <= each.line <= text.count("\n") + 1
