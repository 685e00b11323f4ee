"""Reading the YAML at the top of a SKILL.md."""

import contextlib
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.format.frontmatter import MAX_FRONTMATTER_BYTES, parse, split
from skills_agent.skills.format.parsed import Value
from skills_agent.skills.format.rules import FrontmatterError
from skills_agent.skills.format.yaml_text import read_yaml
from skills_agent.skills.text import clean_lines


def fields(text: str) -> dict[str, Value]:
    return dict(parse(text.encode()).fields)


def codes(text: str) -> list[str]:
    return [finding.code for finding in parse(text.encode()).findings]


def refusal(text: str) -> str:
    with pytest.raises(FrontmatterError) as caught:
        parse(text.encode())
    return caught.value.finding.code


# Fences


@pytest.mark.parametrize(
    "head",
    [
        b"---\nname: a\n---\nbody",
        b"\xef\xbb\xbf---\nname: a\n---\nbody",
        b"---  \nname: a\n---\t\nbody",
        b"---\r\nname: a\r\n---\r\nbody",
        b"---\rname: a\r---\rbody",
        b"---\nname: a\n---",
        b"\n\n---\nname: a\n---\nbody",
    ],
)
def test_fences_are_found_as_people_write_them(head: bytes) -> None:
    found = split(head)
    assert parse(found.frontmatter).fields == {"name": "a"}
    assert head[found.body_start :] in {b"body", b""}


def test_dashes_inside_a_value_close_nothing() -> None:
    head = b"---\nname: a --- b\ntext: |\n  x\n  ---\n  y\nmore: >-\n  x\n  y\n---\nbody\n---\n"
    found = split(head)
    assert parse(found.frontmatter).fields == {"name": "a --- b", "text": "x\n---\ny\n", "more": "x y"}
    assert head[found.body_start :] == b"body\n---\n"


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"", "frontmatter-missing"),
        (b"# Title\n---\nname: a\n---\n", "frontmatter-missing"),
        (b"--\nname: a\n--\n", "frontmatter-missing"),
        (b"---\nname: a\n", "frontmatter-unclosed"),
        (b"---\nname: a\n ---\n", "frontmatter-unclosed"),
        (b"---\n" + b"a" * (MAX_FRONTMATTER_BYTES + 1) + b"\n---\n", "frontmatter-too-large"),
        (b"---\n" + b"a" * 10_000_000, "frontmatter-too-large"),
    ],
)
def test_a_file_without_readable_fences_says_why(head: bytes, code: str) -> None:
    with pytest.raises(FrontmatterError) as caught:
        split(head)

    assert caught.value.finding.code == code


# Scalars stay the text that was written


@pytest.mark.parametrize("written", ["yes", "1.0", "1e3", "2024-99-99", "12:30:45", "9" * 5_000, "=", "<<"])
def test_a_scalar_is_the_text_that_was_written(written: str) -> None:
    assert fields(f"version: {written}") == fields(f"version: '{written}'") == {"version": written}
    assert fields(f"metadata: {{version: {written}}}") == {"metadata": {"version": written}}


@pytest.mark.parametrize("written", ["", "~", "null", "Null", "NULL", "# Heading"])
def test_a_null_is_never_the_text_none_and_in_quotes_it_is_text(written: str) -> None:
    assert fields(f"description: {written}\nname: a") == {"description": None, "name": "a"}
    assert fields(f"metadata:\n  x: {written}\n  y: b") == {"metadata": {"x": None, "y": "b"}}
    assert (
        fields(f"description: '{written}'") == fields(f'description: "{written}"') == {"description": written}
    )


@pytest.mark.parametrize("written", ["[a, b]", "{a: b}", "[]", "{}", "\n  - [a]\n  - {b: c}"])
def test_brackets_are_read_and_reported_once(written: str) -> None:
    assert isinstance(fields(f"tools: {written}")["tools"], list | dict)
    assert codes(f"tools: {written}") == ["yaml-flow-style"]


# Repair


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Use this: for that", "Use this: for that"),
        ('Say "go: now" and: go', 'Say "go: now" and: go'),
        ("First: a,\n  second: b,\n  third.", "First: a, second: b, third."),
        ("@mention people", "@mention people"),
        ("`code` first", "`code` first"),
        ("[BETA] Does things", "[BETA] Does things"),
        ("{{name}} greets", "{{name}} greets"),
        ("*Use this* when", "*Use this* when"),
        ("%percent", "%percent"),
        ('"Quoted" and more', '"Quoted" and more'),
        ('"He said "hi" to us"', 'He said "hi" to us'),
        ("'It's here'", "It's here"),
        ('"never closed', "never closed"),
        ("> on the header line", "> on the header line"),
        ('Say: "go: now",\n  and "stop":\n\n  then go', 'Say: "go: now", and "stop": then go'),
        ("'First: it's\n  wrapped: here'", "First: it's wrapped: here"),
        ('"go: now", then "stop"', '"go: now", then "stop"'),
        ('"Quoted": and more', '"Quoted": and more'),
        ("Uses: tabs\n\tto: wrap", "Uses: tabs to: wrap"),
        ("[a, b", "[a, b"),
        ("{a: b", "{a: b"),
        ("- item", "- item"),
        ("? question", "? question"),
        ("Use: this # and that", "Use: this # and that"),
        (r'"C:\path"', r"C:\path"),
    ],
)
def test_an_invalid_value_is_read_as_written_and_reported(written: str, read: str) -> None:
    text = f"name: a\ndescription: {written}\nlicense: MIT"

    assert fields(text) == {"name": "a", "description": read, "license": "MIT"}
    assert codes(text) == ["yaml-repaired"]


@pytest.mark.parametrize(
    ("text", "read", "told"),
    [
        (
            "metadata:\n  a: [1, 2]\n  note: Use: this\ntools:\n  - *\n  - Read\n",
            {"metadata": {"a": ["1", "2"], "note": "Use: this"}, "tools": ["*", "Read"]},
            {"yaml-repaired", "yaml-flow-style"},
        ),
        ("metadata:\n\ta: x\n\tb: 1\n", {"metadata": {"a": "x", "b": "1"}}, {"yaml-repaired"}),
        ("\tname: a\n\tdescription: b: c\n", {"name": "a", "description": "b: c"}, {"yaml-repaired"}),
        (" \tname: a\n \tdescription: b: c\n", {"name": "a", "description": "b: c"}, {"yaml-repaired"}),
        ("name: a\n...\ndescription: b\n", {"name": "a", "description": "b"}, {"yaml-repaired"}),
        ("some words\n# a comment\nname: a: b\n", {"name": "a: b"}, {"yaml-line-dropped", "yaml-repaired"}),
        ("name: a\nname: b\n", {"name": "b"}, {"yaml-duplicate-key"}),
        ("name: a\nname: b: c\n", {"name": "b: c"}, {"yaml-duplicate-key", "yaml-repaired"}),
    ],
)
def test_a_repair_keeps_what_is_valid_and_is_reported(
    text: str, read: dict[str, Value], told: set[str]
) -> None:
    assert fields(text) == read
    assert set(codes(text)) == told


def test_what_cannot_be_repaired_is_refused() -> None:
    assert refusal("@\n@\n") == "yaml-invalid"
    assert refusal("just words") == "frontmatter-not-mapping"
    assert refusal("- a\n- b\n") == "frontmatter-not-mapping"


# Hostile frontmatter

ALIAS_BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(8)
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (ALIAS_BOMB, "yaml-anchor"),
        ("name: &x a", "yaml-anchor"),
        ("name: &x a\ndescription: a: b", "yaml-anchor"),
        ("name: *x", "yaml-alias"),
        ("name: !!python/object/apply:os.system [ls]", "yaml-tag"),
        ("name: !custom a", "yaml-tag"),
        ("!!map {name: a}", "yaml-tag"),
        ("%YAML 1.1\n--- \nname: a", "yaml-directive"),
        ("name: " + "[" * 100 + "]" * 100, "yaml-too-deep"),
        ("name: " + "[" * 8_000, "yaml-too-deep"),
        ("name:\n" + "".join(" " * n + "- \n" for n in range(1, 100)), "yaml-too-deep"),
        ("- " * 8_000, "yaml-too-deep"),
        ("? [a]\n: b", "yaml-invalid"),
    ],
)
def test_what_could_explode_is_refused_at_once(text: str, code: str) -> None:
    start = time.process_time()

    assert refusal(text) == code
    assert time.process_time() - start < 1


def test_invisible_characters_are_removed_and_reported() -> None:
    text = "name: a\u200bb\0\ndescription: x\u202ey\U000e0041z\u2028w\n"

    assert fields(text)["name"] == "ab"
    assert not set("\u202e\U000e0041\u2028\0") & set(str(fields(text)))
    assert "invisible-characters" in codes(text)


@pytest.mark.parametrize(
    "filler", ["[a, " * 10, "{a: ", "? ", "- a: ", '"', "'", "a: b\n", "\n\n", "#", "a: |\n ", "\t"]
)
def test_no_text_within_the_limit_takes_long(filler: str) -> None:
    text = (filler * MAX_FRONTMATTER_BYTES)[:MAX_FRONTMATTER_BYTES]
    start = time.process_time()

    with contextlib.suppress(FrontmatterError):
        parse(text.encode())

    assert time.process_time() - start < 2


# Properties

_WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
_YAMLISH = st.lists(
    st.sampled_from(
        ["name", "description", "a", "1.0", "null", "~", ":", ": ", "\n", "  ", "\t", "- ", "? ", ", ", "'",
         '"', "|", ">", "[", "]", "{", "}", "&a", "*a", "!t", "<<", "%", "@", "`", "#", " # c", "---", "...",
         "\\", "é", "\u2028", "\x85"]
    )
    | _WORDS,
    max_size=40,
).map("".join)  # fmt: skip


@given(_YAMLISH | st.text(max_size=200))
def test_parsing_any_text_gives_fields_or_one_refusal(text: str) -> None:
    try:
        read = parse(text.encode("utf-8", "surrogatepass"))
    except FrontmatterError:
        return
    assert all(isinstance(key, str) for key in read.fields)
    assert set(read.lines) == set(read.fields)


@given(_YAMLISH)
def test_no_invalid_yaml_is_read_without_a_word(text: str) -> None:
    try:
        read = parse(text.encode())
        read_yaml(clean_lines(text).text, 2)
    except FrontmatterError:
        return
    except yaml.YAMLError:
        assert {"yaml-repaired", "yaml-line-dropped", "invisible-characters"} & {
            finding.code for finding in read.findings
        }


@given(st.binary(max_size=300))
def test_splitting_any_bytes_gives_a_part_of_them_or_one_refusal(head: bytes) -> None:
    try:
        found = split(b"---\n" + head)
    except FrontmatterError:
        return

    assert found.frontmatter in head
    assert found.body_start <= len(head) + 4


_KEYS = st.text(st.sampled_from("abcdefghijk-_"), min_size=1, max_size=12).filter(
    lambda key: key[0] not in "-_"
)
_VALUES = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2000, exclude_categories=["C", "Z"]), max_size=60
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=6))
def test_well_formed_frontmatter_comes_back_as_it_was(written: dict[str, str]) -> None:
    quoted = "".join(f"{key}: '{value.replace(chr(39), chr(39) * 2)}'\n" for key, value in written.items())
    head = f"---\n{quoted}---\nbody".encode()

    read = parse(split(head).frontmatter)

    if not read.findings:
        assert read.fields == written
    else:
        assert {finding.code for finding in read.findings} == {"invisible-characters"}
