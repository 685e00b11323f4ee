"""Which packages a script for Node imports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.needs.node_imports import packages_imported


@pytest.mark.parametrize(
    ("source", "certain", "possible"),
    [
        ("import a from 'aa/b';import \"side\"\nexport * from 'exp'", ["aa", "side", "exp"], []),
        ("import {\n x as y,\n z\n} from '@s/no'\nimport d3, * as e from'd3'", ["@s/no", "d3"], []),
        ("const b = require('bb')\nconst {\n q\n} = require(\"multi\")", ["bb", "multi"], []),
        ("const c = await import('cc')\nconst f = () => require('lazy')", [], ["cc", "lazy"]),
        ("function f() { require('inner') }\nrequire('top')", ["top"], ["inner"]),
        ("import fs from 'fs'; import p from 'node:path'; require('./x'); import '../y.js'", [], []),
        ("import u from 'https://x/y'; import '#in'; import d from '@/alias'; import '/z'", [], []),
        ("// import n from 'a'\n/* require('b') */\nconst s = \"require('c')\"", [], []),
        ("const t = `\nrequire('d')\n${x}`; const r = s.replace(/[\"'`]/g, ''); require('e')", [], ["e"]),
        ("import type { T } from 'types'; import z from 'zz'", ["zz"], []),
        ("export const bar = 'a'; export default 'b'; x.require('c'); foo.import('d')", [], []),
        ("try { require('opt') } catch { }", [], ["opt"]),
        ("try { require('opt') } catch (e) { console.error(e); process.exit(1) }", [], ["opt"]),
        ("try { require('opt') } catch { }\nfunction g() { throw 1 }", [], ["opt"]),
        ("#!/usr/bin/env node\nconst y: Foo = <any>{}; import z from 'zz'", ["zz"], []),
        ("import x = require('ts')", [], ["ts"]),
    ],
)
def test_imports_are_read(source: str, certain: list[str], possible: list[str]) -> None:
    imports = packages_imported(source)
    assert [each.module for each in imports if each.is_certain] == certain
    assert [each.module for each in imports if not each.is_certain] == possible


def test_lines_are_counted_from_one() -> None:
    assert [each.line for each in packages_imported("import 'a'\n\nimport 'b'\n")] == [1, 3]


@given(st.text() | st.text(alphabet="import from requ'\"`{}()/*\n\\tycach$;", max_size=300))
def test_any_text_is_read(text: str) -> None:
    for each in packages_imported(text):
        assert each.module.isascii()
        assert 1 <= each.line <= text.count("\n") + 1
