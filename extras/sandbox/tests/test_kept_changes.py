"""threads show --html: what scripts changed, as diffs of what is kept for `undo`."""

import re

import pytest

from extras.sandbox.tests.test_layers import needs_layers
from skills_agent.sandbox import kept_changes
from tests.graph.cli.command_line import LOAD, RUN, CommandLine
from tests.machine import needs_bwrap, needs_part

pytestmark = [pytest.mark.slow, needs_bwrap, needs_layers, needs_part("pages")]

COUNT_UP = """\
from pathlib import Path
rain, key = Path("rainfall.csv"), Path("key.txt")
text = rain.read_text()
year = 153 if "Bergen,Feb,152" in text else 154
rain.write_text(text.replace(f"Bergen,Feb,{year - 1}", f"Bergen,Feb,{year}"))
key.write_text("sk-proj-1A2b3C4d5E6f7G8h9I0jKlMnOpQrStUv")
Path("many.txt").write_text("line\\n" * 500)
Path("raw.bin").write_bytes(bytes(9))
"""


@pytest.fixture
def ran(cli: CommandLine) -> CommandLine:
    """Return a workspace in which a script ran twice, and changed the same file each time."""
    skills = cli.write_skill()
    (skills / "rain-gauge" / "scripts" / "add_up.py").write_text(COUNT_UP)
    model = cli.script(LOAD, RUN, "Done.", RUN, "Done.")
    options = ("--thread", "rain", "--skills-dir", str(skills), "--yes", "run", "--model", model)
    for _ in range(2):
        assert cli.run("ask", "Count up", *options).code == 0
    return cli


def page(cli: CommandLine) -> str:
    assert cli.run("threads", "show", "rain", "--html", "it.html").code == 0
    return (cli.workspace / "it.html").read_text()


def changed(made: str) -> list[tuple[str, str]]:
    return re.findall(r'<span class="(?:added|removed)">([-+])Bergen,Feb,(\d+)</span>', made)


def test_each_call_has_the_diffs_of_what_its_script_changed(ran: CommandLine) -> None:
    made = page(ran)
    assert changed(made) == [("-", "152"), ("+", "153"), ("-", "153"), ("+", "154")]
    assert "sk-proj" not in made
    assert made.count('<span class="added">+line</span>') == kept_changes.MAX_LINES - 1
    assert "… 101 more lines" in made


def test_what_somebody_changed_since_is_not_told_as_a_scripts(ran: CommandLine) -> None:
    (ran.workspace / "rainfall.csv").write_text("mine\n")
    made = page(ran)
    assert changed(made) == [("-", "152"), ("+", "153")]
    assert "mine" not in made
