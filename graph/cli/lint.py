"""skills-agent skills lint: does a skill keep to the specification? Imports no LangGraph."""

from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.findings import diagnostic_json, diagnostic_line
from skills_agent.graph.cli.printing import print_json
from skills_agent.skills.format.lint import LintReport
from skills_agent.skills.format.lint import lint as lint_folder

_EPILOG = """\b
Exit codes: 0 no errors (there may be warnings), 1 errors.

\b
Examples:
  skills-agent skills lint my-skills/csv-report
  skills-agent skills lint my-skills --json
"""


@click.command(epilog=_EPILOG)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@options.as_json
@click.pass_context
def lint(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Check the skill in DIR, or every skill below it, against agentskills.io/specification."""
    report = lint_folder(folder)
    if as_json:
        print_json(
            {
                "skills": list(report.skills),
                "errors": report.count("error"),
                "warnings": report.count("warning"),
                "findings": [diagnostic_json(found) for found in report.findings],
            }
        )
    else:
        for found in report.findings:
            click.echo(diagnostic_line(found))
        click.echo(_summary(report))
    if report.count("error"):
        ctx.exit(1)


def _summary(report: LintReport) -> str:
    told = (
        _counted(len(report.skills), "skill"),
        _counted(report.count("error"), "error"),
        _counted(report.count("warning"), "warning"),
    )
    return ", ".join(told)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
