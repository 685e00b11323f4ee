"""What a skill's frontmatter and text ask for, on a real `langgraph dev`: forks, commands, hooks."""

from pathlib import Path
from typing import Any

import pytest

from tests.langgraph_dev import ask, pea_server, running

pytestmark = [pytest.mark.server, pytest.mark.slow]


def test_a_fork_is_streamed_asks_survives_a_restart_and_answers(tmp_path: Path) -> None:
    server = pea_server(tmp_path)
    skill = server.workspace / "given" / "pea-census" / "SKILL.md"
    skill.write_text(skill.read_text().replace("---\n", "---\ncontext: fork\n", 1))
    with running(server):
        thread, client = server.thread(), server.client
        assert client
        given: Any = ask("/pea-census harvest.csv")
        parts = client.runs.stream(thread, "agent", input=given, stream_mode="updates", stream_subgraphs=True)
        places = [part.event.split("|")[1].partition(":")[0] for part in parts if part.event.count("|") == 1]
        assert set(places) == {"fork"}
        server.stop()
        server.start()
        (interrupt,) = server.state(thread)["interrupts"]
        assert interrupt["value"]["asked_by"] == ["skill pea-census"]
        result = server.run(thread, decision="approve")
    assert "24" in result["answer"]
    assert result["loaded"] == []


HOOKS = """\
hooks:
  PreToolUse:
    - matcher: run_script
      hooks: [{type: command, command: "echo 'not today' >&2; exit 2"}]
"""


def test_commands_are_asked_about_and_hooks_deny_over_the_sdk(tmp_path: Path) -> None:
    server = pea_server(tmp_path, more={"SKILLS_AGENT_DYNAMIC_CONTEXT": "on"})
    skill = server.workspace / "given" / "pea-census" / "SKILL.md"
    text = skill.read_text().replace("---\n", f"---\n{HOOKS}", 1)
    skill.write_text(f"{text}\nThe table has so many lines: !`wc -l harvest.csv > lines.txt`\n")
    asked: list[str] = []
    with running(server):
        thread = server.thread()
        server.run(thread, "/pea-census harvest.csv")
        while questions := server.state(thread)["interrupts"]:
            asked += [each["name"] for question in questions for each in question["value"]["action_requests"]]
            server.run(thread, decision="approve")
        state = server.state(thread)
    assert asked == ["run_command", "run_script"]  # a hook judges what was allowed
    answers = [each["content"] for each in state["values"]["messages"] if each["type"] == "tool"]
    assert any("a hook of the skill pea-census denies it: not today" in str(each) for each in answers)
    assert (server.workspace / "lines.txt").read_text().split() == ["4", "harvest.csv"]
