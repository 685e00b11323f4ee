"""What a skill's frontmatter and text ask for, on a real `langgraph dev`: commands in the text, and hooks."""

from pathlib import Path
from typing import Any

import pytest

from tests.langgraph_dev import pea_server

pytestmark = [pytest.mark.server, pytest.mark.slow]
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
    try:
        client = server.start()
        thread = client.threads.create()["thread_id"]
        question: Any = {"messages": [{"role": "user", "content": "/pea-census harvest.csv"}]}
        client.runs.wait(thread, "agent", input=question)
        asked: list[str] = []
        for _ in range(4):
            state: Any = client.threads.get_state(thread)
            if not state["interrupts"]:
                break
            (interrupt,) = state["interrupts"]
            asked += [each["name"] for each in interrupt["value"]["action_requests"]]
            resume = {interrupt["id"]: {"decisions": [{"type": "approve"}]}}
            client.runs.wait(thread, "agent", command={"resume": resume})
    finally:
        server.stop()
    assert asked == ["run_command", "run_script"]  # a hook judges what was allowed
    answers = [each["content"] for each in state["values"]["messages"] if each["type"] == "tool"]
    assert any("a hook of the skill pea-census denies it: not today" in str(each) for each in answers)
    assert (server.workspace / "lines.txt").read_text().split() == ["4", "harvest.csv"]
