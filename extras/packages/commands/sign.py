"""skills-agent skills sign: vouch for skills and archives with a key of SSH."""

import os
import tempfile
from pathlib import Path

import click
from msgspec import structs

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_json
from skills_agent.graph.places import process_environment
from skills_agent.graph.settings import Settings, content_limits
from skills_agent.packages.address import ARCHIVES
from skills_agent.packages.errors import SigningError
from skills_agent.packages.manifest import MANIFEST_FILE, read_manifest, statement
from skills_agent.packages.packing import manifest_of
from skills_agent.packages.signatures import MAX_ARCHIVE, Signatures, signatures_here
from skills_agent.packages.signer_files import SignerFiles
from skills_agent.packages.sshsig import MAX_ARMOUR, fingerprint, parse_signature
from skills_agent.skills.confined import read_beneath
from skills_agent.skills.library.contents import SnapshotError

_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
"""In ~/.ssh, in the order of ssh-keygen."""


@click.command(
    epilog=options.examples(
        "skills sign my-skills/csv-report",
        "skills sign csv-report.skill --key ~/.ssh/id_release",
    )
)
@click.argument(
    "places", metavar="FILE|DIR...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A private key, or a public one whose private half ssh-agent has. By default ~/.ssh/id_ed25519.",
)
@click.option("--force", is_flag=True, help="Replace a signature by another key.")
@options.workspace
@options.as_json
def sign(
    places: tuple[Path, ...], key: Path | None, force: bool, workspace: Path | None, as_json: bool
) -> None:
    """Sign skills (DIR, in their manifest) and archives (FILE, beside them as FILE.sig).

    `ssh-keygen -Y verify -n agent-skills` can check the signature of an archive. Whoever installs them
    trusts your key by `skills-agent trust signer add`.
    """
    settings = Settings.load(workspace)
    key = key or _own_key(settings, places[0])
    signatures = signatures_here(SignerFiles.of(settings), path=process_environment().get("PATH"))
    signed = []
    for place in places:
        file = place.with_name(f"{place.name}.sig")
        if not place.is_dir() and not place.name.endswith(ARCHIVES):
            raise SigningError(str(place), "signed", "it is no folder of a skill, and no archive")
        try:
            if place.is_dir():
                name, mark = _sign_skill(place, signatures, key, settings, force=force)
                file = place / MANIFEST_FILE
            else:
                name, mark = place.name, _sign_archive(place, file, signatures, key, force=force)
        except SnapshotError as error:
            raise SigningError(str(place), "signed", error.reason) from error
        except OSError as error:
            raise SigningError(str(place), "signed", error.strerror or str(error)) from error
        signed.append({"name": name, "fingerprint": mark, "file": str(file)})
    if as_json:
        print_json(signed)
        return
    for each in signed:
        echo(f"Signed {line_of(each['name'])} with {each['fingerprint']}, in {line_of(each['file'])}.")


def _own_key(settings: Settings, place: Path) -> Path:
    for name in _KEYS:
        if (key := settings.home / ".ssh" / name).is_file():
            return key
    raise SigningError(
        str(place),
        "signed",
        "there is no key in ~/.ssh; make one by ssh-keygen -t ed25519, or name one by --key",
    )


def _sign_skill(
    folder: Path, signatures: Signatures, key: Path, settings: Settings, *, force: bool
) -> tuple[str, str]:
    manifest = manifest_of(folder.resolve(), content_limits(settings))
    signature = signatures.sign(statement(manifest.name, manifest.digest), key)
    before = read_manifest(folder)
    _check_other(f"{folder}/{MANIFEST_FILE}", before.signature if before else "", signature, force=force)
    _write(folder / MANIFEST_FILE, structs.replace(manifest, signature=signature).content())
    return manifest.name, _mark(signature)


def _sign_archive(archive: Path, file: Path, signatures: Signatures, key: Path, *, force: bool) -> str:
    if archive.stat().st_size > MAX_ARCHIVE:
        raise SigningError(str(archive), "signed", f"it has more than {MAX_ARCHIVE:,} bytes")
    signature = signatures.sign(archive.read_bytes(), key)
    try:
        before = read_beneath(file.parent, file.name, MAX_ARMOUR + 1, follow=False)
    except FileNotFoundError:
        before = b""
    _check_other(str(file), before.decode("ascii", "replace"), signature, force=force)
    _write(file, signature.encode())
    return _mark(signature)


def _check_other(file: str, before: str, signature: str, *, force: bool) -> None:
    """Refuse to replace the signature of somebody else."""
    if not before or force:
        return
    try:
        other = _mark(before)
    except ValueError:
        other = "what is no signature"
    if other != _mark(signature):
        raise SigningError(file, "replaced", f"it holds {other}; --force replaces it")


def _mark(signature: str) -> str:
    return fingerprint(parse_signature(signature).key)


def _write(file: Path, content: bytes) -> None:
    """Write beside the file and put in place: whoever reads it reads the old one or the new one."""
    try:
        descriptor, draft = tempfile.mkstemp(prefix=".signing-", dir=file.parent)
        try:
            with open(descriptor, "wb") as opened:  # noqa: PTH123 - a descriptor
                os.fchmod(descriptor, 0o644)
                opened.write(content)
            Path(draft).replace(file)
        finally:
            Path(draft).unlink(missing_ok=True)
    except OSError as error:
        raise SigningError(str(file), "written", error.strerror or str(error)) from error
