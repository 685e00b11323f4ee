"""skills-agent skills pack: make an archive of skills that anybody can make again."""

from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.doctor import diagnostic_line
from skills_agent.graph.cli.printing import echo, line_of, print_json
from skills_agent.graph.settings import Settings, content_limits
from skills_agent.packages.packing import PackError, UnfitError
from skills_agent.packages.packing import pack as pack_folders
from skills_agent.skills.library.contents import SnapshotError
from skills_agent.skills.text import count


@click.command(
    epilog=options.examples(
        "skills pack my-skills/csv-report",
        "skills pack my-skills/* -o all.zip --force",
        "skills pack csv-report --json",
    )
)
@click.argument(
    "folders",
    metavar="DIR...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The archive, .skill or .zip. By default NAME.skill, here; needed for several skills.",
)
@click.option("--force", is_flag=True, help="Replace an archive that is there.")
@click.option("--allow-warnings", is_flag=True, help="Also pack skills with warnings of skills lint.")
@options.workspace
@options.as_json
def pack(
    folders: tuple[Path, ...],
    file: Path | None,
    force: bool,
    allow_warnings: bool,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Pack the skills in DIR... into one archive: the same bytes for the same files, on any machine.

    A skill with findings of `skills lint` is refused. Each gets a manifest with its digests; caches
    and version control are left out.
    """
    if file is None and len(folders) > 1:
        raise click.UsageError("Name the archive of several skills: -o FILE")
    limits = content_limits(Settings.load(workspace))
    file = file or Path(f"{folders[0].resolve().name}.skill")
    try:
        packed = pack_folders(folders, file, limits, force=force, allow_warnings=allow_warnings)
    except UnfitError as error:
        if as_json:
            print_json({"error": str(error), "findings": error.findings})
        else:
            for finding in error.findings:
                click.echo(diagnostic_line(finding))
        raise
    except SnapshotError as error:
        raise PackError(error.folder.name, error.reason) from error
    except OSError as error:
        raise PackError(str(file), error.strerror or str(error)) from error
    if as_json:
        print_json(
            {
                "file": str(packed.file),
                "sha256": packed.sha256,
                "size": packed.size,
                "skills": [each._asdict() for each in packed.skills],
            }
        )
        return
    for each in packed.skills:
        more = "".join(f", without {one}" for one in each.without) + ", signed" * each.is_signed
        echo(f"{each.name}  {each.digest}  {count(each.files, 'file')}{more}")
    echo(f"{packed.sha256}  {line_of(str(packed.file))}")
