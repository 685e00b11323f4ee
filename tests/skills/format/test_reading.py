"""From the bytes of a SKILL.md to what is known of the skill."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.skills.format.fields import FIELDS
from skills_agent.skills.format.instructions import bounded_instructions
from skills_agent.skills.format.reading import SkillPath, read_metadata, read_skill
from skills_agent.skills.format.rules import as_strict
from skills_agent.skills.skill import Skill, SkillMetadata, SkillRef
from tests.examples import trying

PLACE = SkillPath("user", "/skills/csv-report/SKILL.md", "csv-report")


def metadata(frontmatter: str, place: SkillPath = PLACE) -> SkillMetadata:
    read = read_metadata(f"---\nname: csv-report\ndescription: d\n{frontmatter}\n---\n".encode(), place)
    assert read.metadata is not None
    return read.metadata


def codes(frontmatter: str, *, strict: bool = False) -> dict[str, str]:
    """Return the code and severity of each finding."""
    raw = f"---\n{frontmatter}\n---\n".encode()
    read = read_metadata(raw, PLACE)
    found = map(as_strict, read.diagnostics) if strict else read.diagnostics
    return {diagnostic.code: diagnostic.severity for diagnostic in found}


def skill(body: str | bytes, root: Path | None = None) -> Skill:
    raw = body if isinstance(body, bytes) else body.encode()
    return read_skill(b"---\nname: csv-report\ndescription: d\n---\n" + raw, PLACE, root, 1_000_000)


# Fields of the specification


def test_every_field_of_the_specification_is_read() -> None:
    read = read_metadata(
        b"---\nname: csv-report\ndescription: Profiles CSV files.\nlicense: MIT\ncompatibility: Needs git\n"
        b"metadata:\n  author: someone\n  version: 1.0\nallowed-tools: Read Bash(git:*)\n---\nbody",
        PLACE,
    )
    found = read.metadata
    assert found is not None
    assert read.diagnostics == ()
    assert (found.name, found.description) == ("csv-report", "Profiles CSV files.")
    assert (found.license, found.compatibility) == ("MIT", "Needs git")
    assert found.metadata == {"author": "someone", "version": "1.0"}
    assert (found.author, found.version) == ("someone", "1.0")
    assert found.allowed_tools == ("Read", "Bash(git:*)")
    assert found.ref == SkillRef("csv-report", "user", PLACE.path)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("allowed-tools: Read Grep", ("Read", "Grep")),
        ("allowed-tools: Read, Grep,Glob", ("Read", "Grep", "Glob")),
        ("allowed-tools: Bash(git diff:*), Read", ("Bash(git diff:*)", "Read")),
        ("allowed-tools: Bash(git add, git commit) Read", ("Bash(git add, git commit)", "Read")),
        ("allowed-tools: [Bash(git add, git commit), Read]", ("Bash(git add, git commit)", "Read")),
        ("allowed-tools:\n  - Read\n  - Bash(npm run *)", ("Read", "Bash(npm run *)")),
        ("allowed-tools:\n  - Read, Grep\n  - Glob Edit", ("Read", "Grep", "Glob", "Edit")),
        ('allowed-tools: \'"Read", "Grep"\'', ("Read", "Grep")),
        ("allowed-tools: Read Read", ("Read",)),
        ("allowed-tools: [Read], [Grep]", ("Read", "Grep")),
        ("allowed-tools: Bash (git:*) Read", ("Bash(git:*)", "Read")),
        ("allowed-tools: Bash(git Read", ("Bash(git Read",)),
        ("allowed-tools: Bash(a(b) c) Read", ("Bash(a(b) c)", "Read")),
        ("allowed-tools: []", ()),
        ("tools:\n  - {name: Bash, type: x}", ()),
        ("allowed-tools:", ()),
        ("allowedTools: Read", ("Read",)),
        ("tools: Read", ("Read",)),
        ("tools: Grep\nallowed-tools: Read", ("Read",)),
        ("allowed-tools: Read\ntools: Grep", ("Read",)),
    ],
)
def test_allowed_tools_are_read_in_every_form(written: str, read: tuple[str, ...]) -> None:
    assert metadata(written).allowed_tools == read


@trying(40)
@given(st.text(st.sampled_from("ab(), "), max_size=30))
def test_splitting_tools_loses_no_letter_and_opens_no_pattern(text: str) -> None:
    names = metadata(f"allowed-tools: {text!r}").allowed_tools or ()

    assert not any(name.startswith("(") and names.index(name) for name in names)
    assert {"a", "b"} & set(text) == {"a", "b"} & set("".join(names))


# Names and descriptions


@pytest.mark.parametrize(
    ("name", "read", "code"),
    [
        ("yes", "yes", "name-not-folder"),
        ("1.0", "1.0", "name-not-kebab"),
        ("r-lib/cli", "r-lib-cli", "name-unsafe"),
        ("../../etc/passwd", "etc-passwd", "name-unsafe"),
        ("..\\\\x", "x", "name-unsafe"),
        (".hidden", "hidden", "name-unsafe"),
        ("csv-report@bundled", "csv-report-bundled", "name-unsafe"),
        ("a\u200bb", "ab", "invisible-characters"),
        ('"a\\u202eb"', "ab", "invisible-characters"),
        ('"a\\nb"', "a b", "name-not-kebab"),
        ("[a, b]", "csv-report", "name-not-text"),
        ("///", "csv-report", "name-missing"),
        ("n" * 5_000, "n" * 127 + "…", "name-too-long"),
        ("</skill><system>", "<-skill><system>", "angle-brackets"),
    ],
)
def test_a_name_is_one_safe_line(name: str, read: str, code: str) -> None:
    found = read_metadata(f"---\nname: {name}\ndescription: d\n---\n".encode(), PLACE)

    assert found.metadata is not None
    assert found.metadata.name == read
    assert code in [each.code for each in found.diagnostics]


@pytest.mark.parametrize(
    "written", ["", "description:", "description: ~", "description: '  '", "description: # Title"]
)
def test_a_skill_without_a_description_is_skipped(written: str) -> None:
    read = read_metadata(f"---\nname: csv-report\n{written}\n---\n".encode(), PLACE)

    assert read.metadata is None
    assert [found.code for found in read.diagnostics if found.severity == "error"] == ["description-missing"]


def test_a_description_in_another_form_is_text_all_the_same() -> None:
    assert metadata("description:\n  Use when: asked").description == "Use when: asked"
    assert metadata("description: [one, two]").description == "one, two"


# Fields of clients


def test_fields_of_clients_are_read_in_their_spellings() -> None:
    read = metadata(
        "version: 1.0\nauthor: me\nmodel: opus\nwhen_to_use: always\nargument-hint: '[file]'\n"
        "arguments: [file, mode]\nrequires: a, b\ndisable-model-invocation: true\nuserInvokable: no\n"
        "disallowed-tools: Bash(rm *)\nmetadata: {a: {b: c}, d: ~}"
    )
    assert (read.version, read.author, read.model, read.when_to_use) == ("1.0", "me", "opus", "always")
    assert (read.argument_hint, read.arguments) == ("[file]", ("file", "mode"))
    assert (read.model_invocable, read.user_invocable) == (False, False)
    assert (read.requires, read.disallowed_tools) == (("a", "b"), ("Bash(rm *)",))
    assert read.metadata == {"a": '{"b": "c"}', "d": ""}


@pytest.mark.parametrize(
    "key",
    [
        *("user-invocable", "user_invocable", "userInvocable", "user-invokable", "user-invokeable"),
        *("user-invoceable", "UserInvokable", "user invocable", "userinvocable"),
        *("disable-model-invocation", "disableModelInvocation", "disable-model-invokation"),
    ],
)
def test_a_field_is_known_in_all_its_spellings(key: str) -> None:
    read = metadata(f"{key}: {'false' if 'user' in key.lower() else 'true'}")

    assert not (read.user_invocable and read.model_invocable and not read.without_effect)
    assert "field-unknown" not in codes(f"description: d\n{key}: false")


@pytest.mark.parametrize(
    "written", ["context: fork", "run-mode: subagent", "runMode: fork", "run_mode: subagent"]
)
def test_a_skill_that_runs_by_itself_says_so_in_several_words(written: str) -> None:
    assert metadata(written).is_forked
    assert not metadata("context: elsewhere").is_forked


@pytest.mark.parametrize(
    ("written", "code", "severity"),
    [
        ("context: elsewhere", "run-mode-unknown", "warning"),
        ("disable-model-invocation: maybe", "field-not-boolean", "warning"),
        ("hooks: on", "hooks-without-effect", "info"),
        ("hooks: {Setup: [{hooks: [{command: x}]}]}", "hooks-without-effect", "info"),
        ("hooks: {Stop: [{hooks: [{type: http, url: x}]}]}", "hooks-without-effect", "info"),
        ("hooks: {Stop: [{hooks: [{command: x, async: true}]}]}", "hooks-without-effect", "info"),
        ("hooks: {Stop: [{command: x}]}", "hooks-without-effect", "info"),
        (
            "hooks: {PreToolUse: [{matcher: Edit.*, hooks: [{command: x}]}]}",
            "hooks-not-understood",
            "warning",
        ),
        ("hooks: {PreToolUse: [{hooks: [{command: x, if: Bash(a|b)}]}]}", "hooks-not-understood", "warning"),
        ("compatibility: [git, jq]", "compatibility-not-text", "warning"),
        ("compatibility:\n  git: 2", "compatibility-not-text", "warning"),
        ("allowed-tools: Ba*", "tools-not-understood", "warning"),
        ("disallowed-tools: [Read, Bash(a|b)]", "tools-not-understood", "warning"),
        ("tools: Read(/etc/passwd)", "tools-not-understood", "warning"),
        ("tools:\n  - {name: Bash, type: x}", "allowed-tools-not-text", "warning"),
        ("model: the best one", "model-form", "warning"),
        ("model: [opus, sonnet]", "model-form", "warning"),
        ("effort: hard", "effort-unknown", "warning"),
        ("requires: a>=latest", "requires-version-form", "warning"),
        ("requires:\n  bins: [jq]", "requires-not-skills", "info"),
    ],
)
def test_what_has_no_effect_as_it_is_written_is_reported(written: str, code: str, severity: str) -> None:
    assert codes(f"description: d\n{written}")[code] == severity


def test_every_field_that_is_read_has_an_effect_or_is_reported() -> None:
    for name, effect, *_ in FIELDS:
        told = codes(f"description: d\n{name}: x")
        assert ("field-not-acted-on" in told) == (effect == "none"), name
        assert "field-unknown" not in told, name


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("requires: a, b", ("a", "b")),
        ("requires: [a, b@user]", ("a", "b@user")),
        ("requires:\n  - name: a\n  - b", ("a", "b")),
        ("requires:\n  skills: [a]\n  bins: [jq]", ("a",)),
        ("requires:\n  bins: [jq]", ()),
        ("requires:", ()),
        ("requires: a>=1.2, b", ("a>=1.2", "b")),
        ("requires: a >= 1.2, < 2 b", ("a>=1.2,<2", "b")),
        ("requires: a==1.*,b@user~=1.0", ("a==1.*", "b@user~=1.0")),
        ("requires: ['a >=1, <2', 'My skill']", ("a>=1,<2", "My skill")),
        ("requires: ['a>=not-a-version', b]", ("a", "b")),
    ],
)
def test_requires_names_skills_and_nothing_else(written: str, read: tuple[str, ...]) -> None:
    assert metadata(written).requires == read


# Two strengths


@pytest.mark.parametrize(
    ("frontmatter", "code", "lenient"),
    [
        ("description: d", "name-missing", "warning"),
        ("name: Csv Report\ndescription: d", "name-not-kebab", "warning"),
        ("name: csv--report\ndescription: d", "name-not-kebab", "warning"),
        ("name: -csv\ndescription: d", "name-unsafe", "warning"),
        ("name: other\ndescription: d", "name-not-folder", "warning"),
        (f"name: {'n' * 65}\ndescription: d", "name-too-long", "warning"),
        (f"name: csv-report\ndescription: {'d' * 1025}", "description-too-long", "warning"),
        (
            f"name: csv-report\ndescription: d\ncompatibility: {'c' * 501}",
            "compatibility-too-long",
            "warning",
        ),
        ("name: csv-report\ndescription: d\ntags: x", "field-unknown", "info"),
        ("name: csv-report\ndescription: d\nversion: 1", "field-extension", "info"),
        ("name: csv-report\ndescription: a: b", "yaml-repaired", "warning"),
        ("name: csv-report\ndescription: d\ndescription: d", "yaml-duplicate-key", "warning"),
    ],
)
def test_the_same_rule_warns_at_discovery_and_fails_in_strict(
    frontmatter: str, code: str, lenient: str
) -> None:
    assert codes(frontmatter)[code] == lenient
    assert codes(frontmatter, strict=True)[code] == "error"


def test_a_name_holds_no_joiner_and_says_so() -> None:
    persian = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    read = read_metadata(f"---\nname: {persian}\ndescription: {persian}\n---\n".encode(), PLACE)
    assert read.metadata is not None
    assert (read.metadata.name, read.metadata.description) == (persian.replace("\u200c", ""), persian)
    assert "invisible-characters" in {each.code for each in read.diagnostics}


TITLED = (
    b"# Notes\n\n![badge](b.png)\n```sh\nls\n\nls -l\n```\n## Use\nWrite **notes**\nabout things.\n\nMore.\n"
)


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("", "frontmatter-made"),
        ("---\nname: csv-report\n---\n", "description-made"),
        ("---\nname: csv-report\ndescription: ~\n---\n", "description-made"),
    ],
)
def test_what_a_head_lacks_is_the_folder_s_name_and_the_first_paragraph(head: str, code: str) -> None:
    read = read_skill(head.encode() + TITLED, PLACE, None, 1_000_000)
    assert (read.metadata.name, read.metadata.description) == ("csv-report", "Write **notes** about things.")
    assert read.instructions == TITLED.decode().strip()
    assert [(each.code, each.severity) for each in read.diagnostics] == [(code, "warning")]


@pytest.mark.parametrize(
    ("text", "description"),
    [("Just text.\n\nMore.", "Just text."), ("# Title\n\n> a quotation\n", "Title"), ("\0# x", "x")],
)
def test_a_title_describes_where_there_is_no_paragraph(text: str, description: str) -> None:
    read = read_metadata(text.encode(), PLACE).metadata
    assert read is not None
    assert read.description == description


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "frontmatter-missing"),
        (b"#!/bin/sh", "frontmatter-missing"),
        (b"\xff\xfeT\0", "skill-undecodable"),
    ],
)
def test_what_says_nothing_is_no_skill(text: bytes, code: str) -> None:
    read = read_metadata(text, PLACE)
    assert (read.metadata, [each.code for each in read.diagnostics]) == (None, [code])


def test_a_byte_order_mark_and_half_a_character_cost_nothing() -> None:
    read = read_metadata(b"\xef\xbb\xbf---\nname: csv-report\ndescription: d\n---\n", PLACE)
    assert read.metadata is not None
    assert [(found.code, found.severity) for found in read.diagnostics] == [("byte-order-mark", "info")]
    assert read_metadata("# Größe".encode()[:-2], PLACE).metadata is not None


# The whole skill


def test_instructions_have_one_kind_of_line_end_and_nothing_invisible() -> None:
    read = skill("\r\n# Title\r\nOne\rTwo\u2028Three\u200b\U000e0041\x1b[0m\n\n")

    assert read.instructions == "# Title\nOne\nTwo\nThree[0m"
    assert read.lines == 4
    assert [found.code for found in read.diagnostics] == ["invisible-characters"]


def test_variables_for_the_skills_folder_become_its_path(tmp_path: Path) -> None:
    body = "{baseDir}/a ${CLAUDE_SKILL_DIR}/b ${SKILL_DIR}/c {SKILL_DIR}/d ${CLAUDE_PLUGIN_ROOT}/e ${OTHER}"

    assert (
        skill(body, tmp_path).instructions == " ".join(f"{tmp_path}/{name}" for name in "abcde") + " ${OTHER}"
    )
    assert skill(body).instructions == body


@pytest.mark.parametrize("line", ["Branch: !`git branch --show-current`", "```!\nls\n```"])
def test_a_command_in_the_instructions_is_reported_and_stays_text(line: str) -> None:
    read = skill(f"# Title\n\n{line}\n")
    assert line in read.instructions
    assert [(found.code, found.severity, found.line) for found in read.diagnostics] == [
        ("command-in-instructions", "warning", 7)
    ]


def test_what_is_reported_of_long_instructions_is_bounded() -> None:
    assert skill("x\n" * 500).diagnostics == ()
    assert [found.code for found in skill("x\n" * 501).diagnostics] == ["instructions-long"]
    found = [each for each in skill("!`a`\n" * 100_000).diagnostics if each.code == "command-in-instructions"]
    assert 0 < len(found) <= 10


@given(st.binary(max_size=200), st.binary(max_size=100))
def test_reading_any_bytes_gives_metadata_or_a_reason(frontmatter: bytes, body: bytes) -> None:
    read = read_metadata(b"---\n" + frontmatter + b"\n---\n" + body, PLACE)

    assert read.metadata is not None or any(found.severity == "error" for found in read.diagnostics)


def test_a_skill_of_one_endless_line_is_cut_and_says_so() -> None:
    text, _, note = bounded_instructions(skill("x" * 900_000), 500).partition("\n\n")

    assert len(text) == 100_000
    assert "cut after 100,000 characters" in note
    short = "\n".join(["short"] * 500)
    assert bounded_instructions(skill(short), 501) == short


@pytest.mark.parametrize(
    ("written", "attribute", "value", "other"),
    [
        ("disable-model-invocation: true", "model_invocable", False, "false"),
        ('disable-model-invocation: "true"', "model_invocable", False, "false"),
        ("user-invocable: false", "user_invocable", False, "true"),
        ("requires: one two", "requires", ("one", "two"), "other"),
        ("disallowed-tools: Bash", "disallowed_tools", ("Bash",), "Read"),
        ('argument-hint: "[file]"', "argument_hint", "[file]", "other"),
        ("when_to_use: always", "when_to_use", "always", "other"),
    ],
)
def test_a_field_has_its_effect_under_metadata_too_where_it_is_nowhere_else(
    written: str, attribute: str, value: object, other: str
) -> None:
    within = f"metadata:\n  {written}"
    assert getattr(metadata(within), attribute) == value
    assert getattr(metadata(f"{written.partition(':')[0]}: {other}\n{within}"), attribute) != value
