"""A registry of Node packages on this machine, of packages made by hand: no test needs a network."""

import base64
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.http_servers import Requests, served

needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm here")


@dataclass
class Registry:
    """Packages that npm gets over HTTP, and what it asked for."""

    address: str
    packages: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    archives: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def add(
        self, name: str, version: str = "1.0.0", files: Mapping[str, str] | None = None, **more: Any
    ) -> str:
        """Publish a package with an `index.js` that exports its version; return its integrity."""
        package = {"name": name, "version": version, "main": "index.js", **more}
        content = {"index.js": f"module.exports = {version!r}\n", **(files or {})}
        archive = _archive({"package.json": json.dumps(package), **content})
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self.archives[path] = archive
        dist = {"tarball": self.address + path, "integrity": integrity}
        has_scripts = {"hasInstallScript": True} if "scripts" in more else {}
        self.packages.setdefault(name, {})[version] = {**package, **has_scripts, "dist": dist}
        return integrity

    def environment(self, home: Path) -> dict[str, str]:
        """Return the environment of a user whose packages come from here."""
        home.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(home), "npm_config_registry": f"{self.address}/"}

    def answer(self, path: str) -> bytes | None:
        """Return what a GET of a path brings; None for what is not here."""
        self.requests.append(path)
        versions = self.packages.get(path[1:])
        if versions is None:
            return self.archives.get(path)
        newest = max(versions)
        return json.dumps({"name": path[1:], "dist-tags": {"latest": newest}, "versions": versions}).encode()


class _Requests(Requests):
    def respond(self) -> None:
        content = self.state.answer(unquote(self.path))
        self.answer(404 if content is None else 200, content or b"")


def npm_registry() -> AbstractContextManager[Registry]:
    """Serve a registry on a port of its own."""
    return served(_Requests, Registry)


def _archive(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(f"package/{path}")
            member.size, member.mode = len(text.encode()), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()
