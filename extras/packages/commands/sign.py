"""skills-agent publish pack --sign: vouch for skills with a key of SSH."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from skills_agent.graph.cli.printing import echo, line_of, print_json
from skills_agent.graph.settings import Settings
from skills_agent.packages.errors import PackageError
from skills_agent.packages.manifest import MANIFEST_FILE, statement
from skills_agent.packages.packing import manifest_of, put_in_place
from skills_agent.packages.signatures import signatures_of
from skills_agent.skills.library.contents import SnapshotError


def sign(settings: Settings, folders: Sequence[Path], key: Path | None, *, as_json: bool) -> None:
    """Sign the skill in each folder, in its manifest. Whoever allows that key trusts it then."""
    key = key or settings.home / ".ssh" / "id_ed25519"
    signatures, signed = signatures_of(settings), []
    for folder in folders:
        try:
            manifest = manifest_of(folder.resolve())
            signature = signatures.sign(statement(manifest.name, manifest.digest), key)
            with put_in_place(folder / MANIFEST_FILE) as file:
                file.write(structs.replace(manifest, signature=signature).content())
        except (OSError, SnapshotError) as error:
            reason = getattr(error, "reason", "") or getattr(error, "strerror", "") or str(error)
            raise PackageError(f"{folder} cannot be signed: {reason}.") from error
        signed.append({"name": manifest.name, "file": str(folder / MANIFEST_FILE)})
    if as_json:
        print_json(signed)
        return
    for each in signed:
        echo(f"Signed {line_of(each['name'])} with {line_of(str(key))}, in {line_of(each['file'])}.")
