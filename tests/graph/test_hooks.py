"""What an installed extra brings: here of a distribution that lies in a folder on the path."""

from pathlib import Path

from tests.graph.cli.command_line import CommandLine

EXTRA = """\
from skills_agent.graph.hooks import Command, Extra

EXTRA = Extra(
    name="weather",
    commands={
        "forecast": Command("weather.commands:forecast", "Say what the weather will be."),
        "skills thunder": Command("weather.commands:thunder", "Find skills for bad weather."),
        "ask": Command("weather.commands:forecast", "Not this one: the core has the name."),
    },
)
"""
COMMANDS = """\
import click

@click.command()
def forecast():
    click.echo("It will rain in Bergen.")

@click.command()
def thunder():
    click.echo("There is no skill for thunder.")
"""


def install(site: Path, code: str = EXTRA) -> str:
    """Write the files of an installed distribution; return what PYTHONPATH must be."""
    package, of_it = site / "weather", site / "weather-1.0.dist-info"
    for folder in (package, of_it):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    (package / "commands.py").write_text(COMMANDS)
    (of_it / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.0\n")
    (of_it / "entry_points.txt").write_text("[skills_agent.extras]\nweather = weather:EXTRA\n")
    return str(site)


def test_a_command_of_an_extra_runs_and_is_listed_unimported(cli: CommandLine, tmp_path: Path) -> None:
    path = install(tmp_path / "site")
    for words, said in (["forecast"], "It will rain"), (["skills", "thunder"], "no skill for thunder"):
        done = cli.run_process(*words, PYTHONPATH=path)
        assert (done.code, done.err, said in done.out) == (0, "", True)
    (tmp_path / "site" / "weather" / "commands.py").write_text("raise SystemExit(9)")
    listed = cli.run_process("-h", PYTHONPATH=path).out
    assert listed.index("  doctor ") < listed.index("  forecast  Say what the weather will be.")
    assert "Find skills for bad weather." in cli.run_process("skills", "-h", PYTHONPATH=path).out
    assert "QUESTION" in cli.run_process("ask", "-h", PYTHONPATH=path).out  # that of the core


def test_an_extra_that_cannot_be_imported_is_one_line(cli: CommandLine, tmp_path: Path) -> None:
    done = cli.run_process("-h", PYTHONPATH=install(tmp_path / "site", "import no_such_module"))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith("error: The extra weather is installed and cannot be used: No module named")
    path = install(tmp_path / "other", EXTRA.replace("commands=", 'lines="weather.lines", commands='))
    done = cli.run_process("ask", "Hi", "--model", cli.script("Hello."), PYTHONPATH=path)
    assert "cannot be used: No module named 'weather.lines'" in done.err
