"""JSON in a text, held against a schema."""

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from skills_agent.evals.cases import json_checks
from skills_agent.evals.cases.errors import JsonSchemaError
from skills_agent.evals.cases.json_checks import MAX_TEXT, MAX_UNIQUE, check_schema, schema_faults

TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('{"total": 3}', []),
        ('Here it is:\n```json\n{"total": 3}\n```\nDone.', []),
        ('```\n{"total": 3}\n```', []),
        ('```JSON title=x\n{"total": 3}\n```\n```\nother\n```', []),
        ('{"total": "3"}', ["\"/total\": '3' is not of type 'integer'"]),
        ("{}", ["'total' is a required property"]),
        ("3", ["3 is not of type 'object'"]),
        ("", ["It is no JSON"]),
        ('{"total": NaN}', ["It is no JSON"]),
        ("Nothing", ['and it has no fenced block of JSON. It begins with "Nothing"']),
        ("```json\n1\n```\n```json\n2\n```", ["2 fenced blocks"]),
        ("```json\n{\n```", ["Its fenced block: It is no JSON"]),
        ("[" * 100_000, ["It is nested too deeply"]),
        ("1" * (MAX_TEXT + 1), ["1,000,000 are read"]),
    ],
)
def test_the_text_or_its_one_fenced_block_has_to_fit(text: str, faults: list[str]) -> None:
    found = schema_faults(TOTAL, text)
    assert len(found) == len(faults)
    assert all(fault in one for fault, one in zip(faults, found, strict=True))


def test_three_faults_are_told() -> None:
    schema = {"items": {"type": "integer"}}
    assert schema_faults(schema, '["a", "b", "c", "d"]')[3:] == ("and more",)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "nonsense"}, "it is not valid at"),
        ({"pattern": "(?=a)"}, "RE2 does not understand"),
        ({"patternProperties": {"a": {}}}, "is not read here"),
        ({"$ref": "#/examples/0", "examples": [{"patternProperties": {"(a+)+$": {}}}]}, "is not read here"),
    ],
)
def test_a_schema_that_is_none_is_told(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        check_schema(schema)


def test_a_pattern_in_a_value_is_no_pattern() -> None:
    assert schema_faults({"enum": [{"pattern": "(?=a)"}]}, '{"pattern": "(?=a)"}') == ()
    assert schema_faults({"properties": {"pattern": {"type": "string"}}}, '{"pattern": "(?=a)"}') == ()


@pytest.mark.parametrize(
    ("schema", "text", "passes"),
    [
        ({"pattern": "^a+$"}, '"aa"', True),
        ({"pattern": "^a+$"}, '"ab"', False),
        ({"pattern": "(a+)+$"}, f'"{"a" * 5_000}b"', False),
        ({"additionalProperties": False}, '{"xa": 1}', False),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, '{"a": 1, "b": "x"}', True),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, '{"a": 1, "b": 2}', False),
        ({"uniqueItems": True}, "[1, 2, 1]", False),
        ({"uniqueItems": True}, "[1, 2, true]", True),
        ({"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n"}, '"x"', False),
        ({"unevaluatedProperties": False, "properties": {"a": {}}}, '{"b": 1}', False),
    ],
)
def test_keywords_mean_what_the_standard_says(schema: dict[str, Any], text: str, passes: bool) -> None:
    assert (schema_faults(schema, text) == ()) is passes


def test_a_reference_fetches_nothing() -> None:
    asked: list[str] = []

    class Schemas(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Schemas) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(JsonSchemaError, match="which is not in it"):
            schema_faults({"$ref": f"http://127.0.0.1:{server.server_port}/schema.json"}, "1")
        server.shutdown()
    assert asked == []


def test_a_schema_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_checks, "MAX_STEPS", 9_000)
    assert schema_faults({"$ref": "#"}, "1") == (
        "The schema refers to itself, or the text is nested too deeply.",
    )
    each = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(40)}
    doubling = {"$ref": "#/$defs/a0", "$defs": {**each, "a40": {}}}
    assert schema_faults(doubling, "1") == ("The schema takes more than 9,000 steps for this text.",)
    many = str(list(range(MAX_UNIQUE + 1)))
    assert "are not compared" in schema_faults({"uniqueItems": True}, many)[0]


def test_without_the_package_a_person_is_told_what_to_install() -> None:
    program = (
        "import sys; sys.modules['jsonschema'] = None\n"
        "from skills_agent.evals.cases.json_checks import check_schema\n"
        "try: check_schema({})\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'skills-agent[evals]'" in done.stdout
