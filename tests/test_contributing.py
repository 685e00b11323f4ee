"""What docs/contributing.md says of adding things: each is added to a copy of the project, and works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).resolve().parent.parent
PARTS = ("graph", "nodes", "skills", "state")
SUITE = "tests/contracts/test_parts.py"
"""A table of the docs is made of it."""
DRAW = """
from skills_agent.graph import build_graph
print(build_graph().compile().get_graph().draw_mermaid(), end="")
"""

TWO_COMMANDS = """
import json, sys
from skills_agent.graph.cli.main import main

for words in json.loads(sys.argv.pop()):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as error:
        assert not error.code, words
"""


class Copy:
    """A copy of the project, and the files of it that were touched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.touched: set[str] = set()
        kept = [*PARTS, "extras", "docs", "README.md", SUITE]
        listing = ["git", "ls-files", "-co", "--exclude-standard", *kept]
        listed = subprocess.check_output(listing, cwd=PROJECT, text=True)
        for name in filter(lambda name: (PROJECT / name).is_file(), listed.splitlines()):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((PROJECT / name).read_bytes())
        packages = folder / "import" / "skills_agent"
        packages.mkdir(parents=True)
        for part in PARTS:
            (packages / part).symlink_to(folder / part)
        for extra in (folder / "extras").iterdir():
            (packages / extra.name).symlink_to(extra)

    def write(self, name: str, text: str) -> None:
        """Add a file."""
        self.touched.add(name)
        (self.folder / name).write_text(text, encoding="utf-8")

    def edit(self, name: str, *changes: str) -> None:
        """Put the second of two texts behind the one place of a file that reads the first, and so on."""
        text = (self.folder / name).read_text(encoding="utf-8")
        for before, after in zip(changes[::2], changes[1::2], strict=True):
            assert text.count(before) == 1, f"{name} has {text.count(before)} places that read {before!r}"
            text = text.replace(before, before + after)
        self.write(name, text)

    def run(self, *words: str) -> str:
        """Run Python on the copy and return what it prints."""
        variables = {"PYTHONPATH": str(self.folder / "import"), "HOME": str(self.folder.parent / "home")}
        done = subprocess.run(
            [sys.executable, *words], cwd=self.folder, env={**os.environ, **variables}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def asked(self, *words: str, show: tuple[str, ...]) -> str:
        """Ask in a thread of its own, and return what a second command prints of it, all in one process."""
        return self.run("-c", TWO_COMMANDS, json.dumps([["ask", *words, "--thread", "t"], show]))

    def make_docs(self) -> None:
        """Write the generated tables, and count the pages that change."""
        before = {page.name: page.read_text(encoding="utf-8") for page in (self.folder / "docs").glob("*.md")}
        self.run("docs/generate.py")
        for name, text in before.items():
            if (self.folder / "docs" / name).read_text(encoding="utf-8") != text:
                self.touched.add(f"docs/{name}")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """Return a copy of the project."""
    return Copy(tmp_path / "project")


REST = '''"""rest: nothing, for a moment."""

from langgraph.runtime import Runtime

from skills_agent.state.context import Context
from skills_agent.state.schema import AgentState, AgentUpdate


def rest(state: AgentState, runtime: Runtime[Context]) -> AgentUpdate:
    """Change nothing."""
    return AgentUpdate()
'''
EDGES = '    ("discover", "tired", "rest"),\n    ("rest", "rested", "decide"),\n'


def test_a_node_takes_five_files(copy: Copy) -> None:
    copy.write("nodes/rest.py", REST)
    copy.edit(
        "graph/build.py",
        *("from skills_agent.nodes.load import load\n", "from skills_agent.nodes.rest import rest\n"),
        *('    ("summarize", "no skill asked for", "decide"),\n', EDGES),
        *("    after_load,\n", "    after_rest,\n", "    return {\n", "        rest: rest,\n"),
        *('    "discover": after_discover,\n', '    "rest": after_rest,\n'),
    )
    copy.edit(
        "graph/routes.py",
        '    """Summarize older turns first where the history takes too much of the model\'s window."""\n',
        '    if not state.get("answer"):\n        return "tired"\n',
        'AfterSummarize = Literal["a skill is asked for", "no skill asked for"]\n',
        '\n\ndef after_rest(state: AgentState) -> str:\n    return "rested"\n',
    )
    copy.edit("README.md", "    turn --> decide\n", "    discover -- tired --> rest\n    rest --> decide\n")
    copy.write("docs/graph.mmd", copy.run("-c", DRAW))

    answer = copy.run("-m", "skills_agent.graph.cli.main", "ask", "What can you do?", "--model", "offline")

    assert answer
    assert "discover -. &nbsp;tired&nbsp; .-> rest" in (copy.folder / "docs/graph.mmd").read_text()
    assert len(copy.touched) <= 5, copy.touched


LIMIT = """
from skills_agent.graph import Settings
from skills_agent.state.context import Context
print(Context(max_rests=1).narrow(Settings(max_rests=5)).max_rests)
"""


def test_a_limit_takes_three_files(copy: Copy) -> None:
    copy.edit(
        "state/budget.py",
        '    """Runs of scripts in one turn."""\n',
        '    max_rests: Positive = 2\n    """Rests in one turn."""\n',
    )
    copy.edit(
        "state/context.py",
        '    max_script_runs: int | None = _at_most("Script runs")\n',
        '    max_rests: int | None = _at_most("Rests")\n',
    )
    copy.make_docs()

    lowered = copy.run("-c", LIMIT)

    assert lowered == "1"
    assert "`max_rests`" in (copy.folder / "docs/settings.md").read_text(encoding="utf-8")
    assert len(copy.touched) <= 3, copy.touched


def test_a_tool_takes_three_files_and_the_generated_table(copy: Copy) -> None:
    die = 'def roll_die(sides: int) -> str:\n    """Roll a die."""\n    return str(sides + 1)\n'
    copy.write("graph/tools/dice.py", f'"""A die."""\n\n\n{die}')
    declared = "from skills_agent.graph.tools.declare import declare\n"
    copy.edit(
        "graph/tools/__init__.py",
        *(declared, "from skills_agent.graph.tools.dice import roll_die\n"),
        *("        declare(update_plan),\n", "        declare(roll_die),\n"),
    )
    copy.edit(
        "skills/policy/tool_spec.py", "_OWN: Final = (\n", '    ToolSpec(name="roll_die", risk="read"),\n'
    )
    copy.make_docs()
    copy.write("replies.json", '[{"tool_calls": [{"name": "roll_die", "args": {"sides": 6}}]}, "It fell."]')
    copy.touched.remove("replies.json")

    ask = ("Roll.", "--model", "scripted:replies.json")
    shown = copy.asked(*ask, show=("threads", "show", "t"))

    assert "roll_die" in shown
    assert "7" in shown
    assert len(copy.touched - {"docs/policy.md"}) <= 3, copy.touched


FEELS = """
from skills_agent.graph import Settings
from skills_agent.graph.settings import make_registry
print(make_registry(Settings()).refresh().find('sunny').mood)
"""


def test_a_frontmatter_field_takes_four_files(copy: Copy) -> None:
    copy.edit(
        "skills/format/fields.py",
        '    Field("author", "shown", "", _LINE),\n',
        '    Field("mood", "shown", "how it feels", _LINE),\n',
    )
    copy.edit("skills/skill.py", "    author: str | None = None\n", "    mood: str | None = None\n")
    copy.make_docs()
    skill = copy.folder / ".agent/skills/sunny"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: sunny\ndescription: Shines.\nmood: bright\n---\nShine.\n")

    assert copy.run("-c", FEELS) == "bright"
    assert "`mood`" in (copy.folder / "docs/skills.md").read_text(encoding="utf-8")
    assert len(copy.touched) <= 4, copy.touched


def test_an_audit_event_takes_three_files(copy: Copy) -> None:
    copy.edit(
        "graph/audit/events.py",
        "EVENTS: Final[Mapping[str, Kind]] = {\n",
        '    "turn_yawned": Kind("The turn began sleepily.", "times", "yawned {times} times"),\n',
    )
    copy.edit(
        "graph/audit/node_events.py",
        '    """Return the events of a node\'s step, in the order in which a person reads them."""\n',
        '    if node == "discover":\n        return [*_EVENTS[node](step), event("turn_yawned", times=3)]\n',
    )
    copy.make_docs()

    shown = copy.asked("Hello?", "--model", "offline", show=("threads", "record", "t.1"))

    assert "yawned 3 times" in shown
    assert "`turn_yawned`" in (copy.folder / "docs/audit.md").read_text(encoding="utf-8")
    assert len(copy.touched) <= 3, copy.touched


LINK = '''"""heard: says of a call's result that somebody heard it."""

from skills_agent.nodes.links.attempt import Attempt, Outputs, Rest, with_note
from skills_agent.nodes.two_paths import Steps


def heard(attempt: Attempt, rest: Rest) -> Steps[Outputs]:
    """Go on with the rest, and add a line to its result."""
    produced: Outputs = yield from rest(attempt)
    return with_note(produced, "[somebody heard it]")
'''


def test_a_link_of_the_chain_takes_two_files(copy: Copy) -> None:
    copy.write("nodes/links/heard.py", LINK)
    copy.edit(
        "nodes/act.py",
        "from skills_agent.nodes.links.fitted import fitted\n",
        "from skills_agent.nodes.links.heard import heard\n",
        *("judged, again, hooked, once, fitted", ", heard"),
    )
    (copy.folder / "orders.csv").write_text("region,amount\nnorth,3\n")

    ask = ("What is the total amount in orders.csv?", "--model", "offline", "--yes", "run")
    assert "[somebody heard it]" in copy.asked(*ask, show=("threads", "show", "t"))
    assert len(copy.touched) <= 2, copy.touched
