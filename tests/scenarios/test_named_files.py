"""Files that a skill names as @path: read for the model when the skill is loaded."""

from pathlib import Path
from typing import Any

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


def loaded(make_agent: MakeAgent, model: Recorder, **settings: Any) -> Agent:
    agent = make_agent(model.entries, **settings)
    agent.say("go")
    return agent


@pytest.fixture
def model() -> Recorder:
    return Recorder([calls(call("load_skill", name="alpha")), "done", "again", "and again"])


def test_a_file_that_is_named_is_read_once(make_agent: MakeAgent, model: Recorder, skills_dir: Path) -> None:
    files = {"references__a_md": "APRICOT", "b_txt": "BANANA", "c_md": "CHERRY", "picture_png": "x"}
    write_skill(skills_dir, "alpha", "Alpha.", BODY, scripts__run_py="print()", **files)
    agent = loaded(make_agent, model)
    assert paths(agent) == ["references/a.md", "b.txt"]
    assert model.texts[1].index("Read @references/a.md") < model.texts[1].index("APRICOT")
    assert "BANANA" in model.texts[1]
    assert "CHERRY" not in model.texts[1]
    agent.say("/alpha with words")
    agent.say("more")
    assert len(paths(agent)) == 2
    assert model.texts[-1].count("APRICOT") == 1


def test_at_most_five_and_twenty_thousand_bytes_are_read(
    make_agent: MakeAgent, model: Recorder, skills_dir: Path
) -> None:
    sizes = {"large": 20_001, "a": 9_000, "b": 11_001, "c": 10_990, "d": 1, "e": 1, "f": 1, "g": 1}
    body = "\n".join(f"@{name}.md" for name in sizes)
    write_skill(skills_dir, "alpha", "Alpha.", body, **{f"{name}_md": "x" * sizes[name] for name in sizes})
    assert paths(loaded(make_agent, model)) == ["a.md", "c.md", "d.md", "e.md", "f.md"]


def test_none_is_read_where_the_tool_is_left_out(
    make_agent: MakeAgent, model: Recorder, skills_dir: Path
) -> None:
    write_skill(skills_dir, "alpha", "Alpha.", "@a.md", a_md="APRICOT")
    assert paths(loaded(make_agent, model, exclude_tools=("read_resource",))) == []
