"""skills-agent publish pack: make an archive of a skill that anybody can make again, or sign it."""

import hashlib
from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_json
from skills_agent.graph.settings import Settings
from skills_agent.packages.commands.sign import sign
from skills_agent.packages.manifest import read_manifest
from skills_agent.packages.packing import not_packed
from skills_agent.packages.packing import pack as pack_folder
from skills_agent.skills.library.contents import SnapshotError
from skills_agent.skills.text import count


@click.command(
    epilog=options.examples(
        "publish pack my-skills/csv-report",
        "publish pack my-skills/csv-report --sign",
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
    help="The archive, .skill or .zip. By default NAME.skill, here.",
)
@click.option(
    "--sign", "signs", is_flag=True, help="Only sign the skill in each DIR, in its manifest: no archive."
)
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --sign: a private key, or a public one whose private half ssh-agent has. "
    "[default: ~/.ssh/id_ed25519]",
)
@options.workspace
@options.as_json
def pack(
    *,
    folders: tuple[Path, ...],
    file: Path | None,
    signs: bool,
    key: Path | None,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Pack the skill in DIR into an archive: the same bytes for the same files, on any machine.

    A skill with errors of `skills lint` is refused. It gets a manifest with its digests; caches and version
    control are left out. An archive takes the signature of --sign along: whoever has your public key in their
    file of allowed signers trusts the skill.
    """
    if signs and file:
        raise click.UsageError("--sign makes no archive: leave out --output")
    if not signs and (key or len(folders) > 1):
        raise click.UsageError("--key, and more than one DIR, go with --sign")
    if signs:
        sign(Settings.load(workspace), folders, key, as_json=as_json)
    else:
        _pack(folders[0], file, as_json=as_json)


def _pack(folder: Path, file: Path | None, *, as_json: bool) -> None:
    file = file or Path(f"{folder.resolve().name}.skill")
    try:
        signed, manifest = read_manifest(folder), pack_folder(folder, file)
        raw = file.read_bytes()
    except SnapshotError as error:
        raise not_packed(error.folder.name, error.reason) from error
    except OSError as error:
        raise not_packed(str(file), error.strerror or str(error)) from error
    sha256, signature = hashlib.sha256(raw).hexdigest(), "none"
    if signed and signed.signature:
        signature = "kept" if manifest.signature else "lost"
    if as_json:
        facts = {"name": manifest.name, "digest": manifest.digest, "files": len(manifest.files)}
        print_json({"file": str(file), "sha256": sha256, "size": len(raw), **facts, "signature": signature})
        return
    more = {"kept": ", signed", "lost": ", without the signature of other files", "none": ""}[signature]
    echo(f"{manifest.name}  {manifest.digest}  {count(len(manifest.files), 'file')}{more}")
    echo(f"{sha256}  {line_of(str(file))}")
