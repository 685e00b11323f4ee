"""What a frontmatter says that a skill needs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_agent.needs.declared import MAX_NEEDS, declared_needs
from skills_agent.skills.format.parsed import Value
from skills_agent.skills.skill import Need


def named(fields: dict[str, Value]) -> list[tuple[str, str, str]]:
    return [(need.kind, need.name, need.specifier) for need in declared_needs(fields)]


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("Requires git", [("program", "git", "")]),
        ("Python 3.11+ and uv", [("program", "python", ">=3.11"), ("program", "uv", "")]),
        ("neo4j-driver v6; Node.js >=18; TypeScript", [("program", "node", ">=18")]),
        (
            "Requires internet access and an API key (ELEVENLABS_API_KEY).",
            [("variable", "ELEVENLABS_API_KEY", ""), ("network", "internet", "")],
        ),
        ("Requires the Linear MCP server.", [("server", "linear", "")]),
        ("Designed to go with any tree you make", []),
        ("Requires jq. Optional: ffmpeg for video.", [("program", "jq", "")]),
        ("Works without docker", []),
    ],
)
def test_free_text_gives_what_is_surely_meant(text: str, needs: list[tuple[str, str, str]]) -> None:
    assert named({"compatibility": text}) == needs
    assert [need.instead for need in declared_needs({"compatibility": "Node.js or Bun"})] == [("bun",)]


def test_dependencies_are_packages_programs_or_names_of_skills() -> None:
    text = "python>=3.8, pandas>=1.5.0, requests, csv-report, ffmpeg"
    assert named({"dependencies": text}) == [
        ("program", "python", ">=3.8"),
        ("python", "pandas", ">=1.5.0"),
        ("python", "requests", ""),
        ("program", "ffmpeg", ""),
    ]
    assert named({"dependencies": {"python": ["lxml"], "npm": ["@a/b"], "skills": ["other"]}}) == [
        ("python", "lxml", ""),
        ("node", "@a/b", ""),
    ]


def test_requires_of_other_clients_is_read_nested_and_as_json_text() -> None:
    requires: dict[str, Value] = {"bins": ["gh"], "anyBins": ["claude", "codex"], "env": ["GH_KEY"]}
    text = json.dumps({"requires": {"bins": ["op"], "config": ["browser.enabled"], "python": "3.12"}})
    needs = declared_needs({"metadata": {"openclaw": {"requires": requires}, "clawdbot": text}})
    assert sorted((need.kind, need.name, need.specifier, need.instead, need.said) for need in needs) == [
        ("config", "browser.enabled", "", (), "metadata.clawdbot.requires"),
        ("program", "claude", "", ("codex",), "metadata.openclaw.requires"),
        ("program", "gh", "", (), "metadata.openclaw.requires"),
        ("program", "op", "", (), "metadata.clawdbot.requires"),
        ("program", "python", ">=3.12", (), "metadata.clawdbot.requires"),
        ("variable", "GH_KEY", "", (), "metadata.openclaw.requires"),
    ]
    assert named({"requires": {"mcp": ["rube"]}}) == [("server", "rube", "")]


def test_a_name_that_is_no_plain_name_is_left_out_and_a_list_is_bounded() -> None:
    names: list[Value] = ["rm -rf /", "a\nb", "--pre", "$(id)", "x" * 200, "ok"]
    assert named({"requires": {"bins": names}}) == [("program", "ok", "")]
    many: list[Value] = [f"tool{number}" for number in range(10_000)]
    assert len(declared_needs({"requires": {"bins": many}})) == MAX_NEEDS


Values = st.recursive(
    st.none() | st.text(max_size=60) | st.sampled_from(["python>=3", "git", '{"requires": {"bins": ["x"]}}']),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from(["requires", "bins", "env", "anyBins", "python"]) | st.text(), inner
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["compatibility", "dependencies", "requires", "metadata"]), Values))
def test_any_value_gives_plain_names(fields: dict[str, Value]) -> None:
    for need in declared_needs(fields):
        assert isinstance(need, Need)
        text = "".join((need.name, need.specifier, *need.instead))
        assert need.name.isascii()
        assert text.isprintable()
        assert not set(text) & set(" '\"`$;&|")
