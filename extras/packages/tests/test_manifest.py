"""The manifest of a skill: read strictly, kept by installed copies, and believed only where it fits."""

import json
from pathlib import Path
from typing import Any

import pytest

from extras.packages.tests.installs import SKILL, offered, plain_zip
from skills_agent.packages.errors import EntryError
from skills_agent.packages.manifest import (
    MANIFEST_FILE,
    Manifest,
    parse_manifest,
)

DIGEST = "a" * 64
PLAIN: dict[str, Any] = {"version": 1, "name": "greet", "digest": DIGEST, "files": {"SKILL.md": DIGEST}}


TWICE = json.dumps(PLAIN).encode()[:-1] + b', "digest": "' + b"b" * 64 + b'"}'


def packed(place: Path, **changes: Any) -> str:
    """Write an archive with a manifest that fits but for what is changed, and return its name."""
    (place / "plain").mkdir()
    (place / "plain" / "SKILL.md").write_bytes(SKILL)
    [skill] = offered("./plain", place)
    fields: dict[str, Any] = {"version": 1, "name": "greet", "digest": skill.digest, "files": skill.files}
    manifest = Manifest(**(fields | changes)).content()
    raw = plain_zip({"greet/SKILL.md": SKILL, f"greet/{MANIFEST_FILE}": manifest})
    (place / "greet.skill").write_bytes(raw)
    return "greet.skill"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"digest": DIGEST}, "does not fit the files: its digest"),
        ({"files": {}}, "SKILL.md was changed"),
        ({"files": {"more.md": DIGEST}}, "SKILL.md was changed"),
        ({"name": "wave"}, "it is of wave, and the skill is named greet"),
    ],
)
def test_a_package_that_it_does_not_fit_is_refused(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    archive = packed(tmp_path, **changes)
    with pytest.raises(EntryError, match=reason) as caught:
        offered(archive, tmp_path)
    assert caught.value.entry.endswith(MANIFEST_FILE)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 2}, "newer version"),
        ({"version": "1"}, "cannot be read"),
        ({"version": True}, "cannot be read"),
        ({"digest": "A" * 64}, "cannot be read"),
        ({"digest": DIGEST + "\n"}, "cannot be read"),
        ({"files": []}, "cannot be read"),
        ({"files": {"a": f"{DIGEST} setuid"}}, "cannot be read"),
        ({"name": "../greet"}, "no name of a skill"),
        ({"name": None}, "cannot be read"),
        ({"author": "x"}, "cannot be read"),
        *((raw, ".") for raw in (b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, TWICE, TWICE * 2)),
    ],
)
def test_what_does_not_fit_the_format_is_refused(changes: dict[str, Any] | bytes, reason: str) -> None:
    raw = changes if isinstance(changes, bytes) else json.dumps(PLAIN | changes).encode()
    with pytest.raises(EntryError, match=reason):
        parse_manifest(raw, Path(MANIFEST_FILE))


def test_what_is_written_is_read_and_always_the_same(tmp_path: Path) -> None:
    files = {"b": DIGEST, "a \u00e9": f"{DIGEST} exec"}
    manifest = Manifest(version=1, name="greet", digest=DIGEST, files=files)
    again = Manifest(version=1, name="greet", digest=DIGEST, files=dict(reversed(files.items())))
    assert manifest.content() == again.content()
    assert parse_manifest(manifest.content(), tmp_path) == manifest
