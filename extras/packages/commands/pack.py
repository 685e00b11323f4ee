"""skills-agent skills pack: make an archive of a skill that anybody can make again."""

from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_json
from skills_agent.packages.packing import not_packed
from skills_agent.packages.packing import pack as pack_folder
from skills_agent.skills.library.contents import ContentLimits, SnapshotError
from skills_agent.skills.text import count


@click.command(epilog=options.examples("skills pack my-skills/csv-report", "skills pack csv-report --json"))
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The archive, .skill or .zip. By default NAME.skill, here.",
)
@options.as_json
def pack(folder: Path, file: Path | None, as_json: bool) -> None:
    """Pack the skill in DIR into an archive: the same bytes for the same files, on any machine.

    A skill with errors of `skills lint` is refused. It gets a manifest with its digests; caches and version
    control are left out.
    """
    file = file or Path(f"{folder.resolve().name}.skill")
    try:
        packed = pack_folder(folder, file, ContentLimits())
    except SnapshotError as error:
        raise not_packed(error.folder.name, error.reason) from error
    except OSError as error:
        raise not_packed(str(file), error.strerror or str(error)) from error
    if as_json:
        print_json({**packed._asdict(), "file": str(packed.file)})
        return
    more = {"kept": ", signed", "lost": ", without the signature of other files", "none": ""}[
        packed.signature
    ]
    echo(f"{packed.name}  {packed.digest}  {count(packed.files, 'file')}{more}")
    echo(f"{packed.sha256}  {line_of(str(packed.file))}")
