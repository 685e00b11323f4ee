"""Files that a skill names as @path: read for the model when the skill is loaded."""

from pathlib import Path

import pytest

from tests.agents import Agent, Recorder, call, calls, write_skill
from tests.kit import MakeAgent

BODY = """
Read @references/a.md, then @./b.txt and @references/a.md.
`cat @c.md`, a@c.md, @nobody, @scripts/run.py, @picture.png
```
@c.md
```
~~~
@c.md
"""


def paths(agent: Agent) -> list[str]:
    """Return the files that calls read."""
    wanted = [each for message in agent.transcript for each in getattr(message, "tool_calls", ())]
    return [each["args"]["path"] for each in wanted if each["name"] == "read_resource"]


@pytest.fixture
def model() -> Recorder:
    return Recorder([calls(call("load_skill", name="alpha")), "done", "again", "and again"])


def test_a_file_that_is_named_is_read_once(make_agent: MakeAgent, model: Recorder, skills_dir: Path) -> None:
    files = {"references__a_md": "APRICOT", "b_txt": "BANANA", "c_md": "CHERRY", "picture_png": "x"}
    write_skill(skills_dir, "alpha", "Alpha.", BODY, scripts__run_py="print()", **files)
    agent = make_agent(model.entries)
    agent.say("go")
    assert paths(agent) == ["references/a.md", "b.txt"]
    assert model.texts[1].index("Read @references/a.md") < model.texts[1].index("APRICOT")
    assert ("BANANA" in model.texts[1], "CHERRY" in model.texts[1]) == (True, False)
    agent.say("/alpha with words")
    agent.say("more")
    assert len(paths(agent)) == 2
    assert model.texts[-1].count("APRICOT") == 1


@pytest.mark.parametrize(
    ("excluded", "read"), [((), ["a.md", "c.md", "d.md", "e.md", "f.md"]), (("read_resource",), [])]
)
def test_at_most_five_and_twenty_thousand_bytes_are_read_and_none_without_the_tool(
    make_agent: MakeAgent, model: Recorder, skills_dir: Path, excluded: tuple[str, ...], read: list[str]
) -> None:
    sizes = {"large": 20_001, "a": 9_000, "b": 11_001, "c": 10_990, "d": 1, "e": 1, "f": 1, "g": 1}
    body = "\n".join(f"@{name}.md" for name in sizes)
    write_skill(skills_dir, "alpha", "Alpha.", body, **{f"{name}_md": "x" * sizes[name] for name in sizes})
    agent = make_agent(model.entries, exclude_tools=excluded)
    agent.say("go")
    assert paths(agent) == read
