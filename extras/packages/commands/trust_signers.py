"""skills-agent trust signer: whose signatures make skills trusted. Imports no LangGraph."""

import os
from datetime import UTC, date, datetime
from pathlib import Path

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, line_of, print_json, table
from skills_agent.graph.places import process_environment
from skills_agent.graph.settings import Settings
from skills_agent.packages.errors import SigningError
from skills_agent.packages.signatures import NAMESPACE, SignatureCheck, signatures_here
from skills_agent.packages.signer_files import SignerFiles
from skills_agent.packages.signers import Signer, is_principal, line_for, parse_key
from skills_agent.packages.sshsig import SignatureFormatError, fingerprint


@click.group(
    epilog=options.examples(
        "trust signer add alice@example.org alice.pub",
        "trust signer list",
        "trust signer remove alice@example.org",
    )
)
def signer() -> None:
    """Vouch for what somebody signs: every skill with the signature of an allowed signer is trusted.

    They stand in a file as ssh-keygen reads it (the setting allowed_signers), for signatures of skills alone.
    """


@signer.command("add")
@click.argument("name")
@click.argument("key", metavar="KEY")
@click.option(
    "--valid-before",
    "before",
    metavar="DATE",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The first day on which the key counts no more.",
)
@options.as_json
def add(name: str, key: str, before: datetime | None, as_json: bool) -> None:
    """Trust skills that NAME signs with KEY: a file like id_ed25519.pub, or what stands in one.

    NAME is what you want to see, like an address of mail.
    """
    if not is_principal(name):
        raise click.UsageError(
            f"{line_of(name)} is no name of a signer: no blanks, and no , \" ' * ? ! # in it."
        )
    try:
        is_file = not key.startswith(("ssh-", "ecdsa-", "sk-"))
        public = parse_key(Path(key).read_text(encoding="utf-8") if is_file else key)
    except SignatureFormatError as error:
        raise SigningError(line_of(key), "used as a key", str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SigningError(line_of(key), "used as a key", reason) from error
    files = SignerFiles.of(Settings.load_own())
    file = files.allowed
    known = [each for each in files.signers().signers if each.key == public and name in each.principals]
    until = f"{before:%Y%m%d}" if before is not None else ""
    if not known:
        _append(file, line_for(name, public, NAMESPACE, until))
    mark = fingerprint(public)
    if as_json:
        print_json({"name": name, "fingerprint": mark, "file": str(file), "added": not known})
    elif known:
        echo(f"{name} ({mark}) is in {line_of(str(file))} already. To change it: trust signer remove {name}")
    else:
        echo(f"Skills that {name} signs ({mark}) are trusted from now on.")


@signer.command("list")
@options.as_json
def list_signers(as_json: bool) -> None:
    """List those whose signatures count, and until when."""
    files = SignerFiles.of(Settings.load_own())
    file, allowed, now = files.allowed, files.signers(), datetime.now(UTC)
    signatures = signatures_here(files, path=process_environment().get("PATH"))
    rows = [(each, signatures.standing(each.key)) for each in allowed.signers]
    if as_json:
        print_json(
            [
                {
                    "name": each.name,
                    "fingerprint": each.fingerprint,
                    "counts": _counts(each, check, now),
                    "valid_before": each.before.isoformat() if each.before is not None else None,
                }
                for each, check in rows
            ]
        )
        return
    table(
        [(line_of(each.name), each.fingerprint, _state(each, check, now)) for each, check in rows],
        empty="Nobody's signatures count. To add somebody: skills-agent trust signer add NAME KEY",
    )
    for number in allowed.unread:
        echo(f"Line {number} of {line_of(str(file))} cannot be read: it vouches for nobody.")


@signer.command("remove")
@click.argument("name")
@options.as_json
def remove(name: str, as_json: bool) -> None:
    """Trust what NAME signs no more, from the next call on."""
    files = SignerFiles.of(Settings.load_own())
    file, before = files.allowed, files.signers()
    ended = [each for each in before.signers if name in each.principals]
    if not ended:
        known = ", ".join(line_of(each.name) for each in before.signers) or "nobody"
        raise click.ClickException(f"{line_of(name)} is not there: {known}.")
    shared = next((each for each in ended if len(each.principals) > 1), None)
    if shared is not None:
        names = line_of(", ".join(shared.principals))
        raise click.ClickException(f"One line of {line_of(str(file))} is of {names}: change it there.")
    lines = file.read_text(encoding="utf-8").split("\n")  # as the file is read: nothing else ends a line
    gone = {each.line for each in ended}
    _replace(file, "\n".join(text for number, text in enumerate(lines, 1) if number not in gone))
    if as_json:
        print_json([{"name": each.name, "fingerprint": each.fingerprint} for each in ended])
        return
    for each in ended:
        echo(f"What {line_of(each.name)} signs ({each.fingerprint}) is not trusted any more.")


def _counts(signer: Signer, check: SignatureCheck, now: datetime) -> bool:
    """Return whether a line lets its key sign; another line may let it, too."""
    return check.state == "good" and signer.is_for(NAMESPACE) and signer.is_valid(now)


def _state(signer: Signer, check: SignatureCheck, now: datetime) -> str:
    if check.reason.endswith("is revoked"):
        return "revoked"
    if signer.before is not None and signer.before <= now:
        return f"expired {_day(signer.before)}"
    if signer.after is not None and now < signer.after:
        return f"counts from {_day(signer.after)}"
    if not signer.is_for(NAMESPACE):
        return f"may not sign for {NAMESPACE}"
    return f"counts until {_day(signer.before)}" if signer.before is not None else "counts"


def _day(moment: datetime) -> date:
    return moment.astimezone().date()


def _append(file: Path, line: str) -> None:
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    _replace(file, before + "\n" * bool(before and not before.endswith("\n")) + line)


def _replace(file: Path, text: str) -> None:
    """Write beside the file that a link leads to, and put it in place as a whole."""
    place = Path(os.path.realpath(file))
    draft = place.with_name(f".{place.name}.{os.urandom(4).hex()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.touch(mode=0o600, exist_ok=False)
        draft.write_text(text, encoding="utf-8")
        draft.replace(place)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SigningError(str(file), "written", error.strerror or str(error)) from error
