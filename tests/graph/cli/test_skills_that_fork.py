"""A skill that runs by itself, at the command line: what goes on in it, and what is kept, is told."""

from tests.graph.cli.command_line import CommandLine


def test_it_asks_with_its_name_and_is_shown_below_its_call(cli: CommandLine) -> None:
    file = cli.write_skill() / "rain-gauge" / "SKILL.md"
    file.write_text(file.read_text().replace("---\n", "---\ncontext: fork\n", 1))
    folder = ("--skills-dir", str(file.parents[1]))
    asked = cli.run("ask", "/rain-gauge rainfall.csv", "--thread", "rain", *folder)
    assert asked.code == 3
    assert "Asked by the skill rain-gauge." in asked.out + asked.err
    assert "| task: Use the skill rain-gauge: rainfall.csv" in cli.run("threads", "show", "rain").out
    done = cli.run("resume", "rain", "--approve")
    assert "act       skill rain-gauge: run_script: exit code 0" in done.err + done.out
    assert "all stations: 544 mm" in done.out
    shown = cli.run("threads", "show", "rain").out
    assert "    |   run_script(skill=rain-gauge, path=scripts/add_up.py" in shown
    assert "rain/fork:" in cli.run("threads", "record", "rain").out
