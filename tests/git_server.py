"""Real git repositories, and the server that git comes with, over HTTP."""

import os
import ssl
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from tests.http_servers import Requests, served

PERSON = {"NAME": "A", "EMAIL": "a@example.invalid", "DATE": "2026-11-01T00:00:00Z"}
NOBODY = {
    **{f"GIT_{who}_{name}": PERSON[name] for who in ("AUTHOR", "COMMITTER") for name in PERSON},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}

SKILL = "---\nname: {name}\ndescription: Greets. Use when greeting.\n---\n{text}\n"


Files = Mapping[str, str | bytes | tuple[str, str | bytes]]
"""Content by path. `(mode, content)` is of that mode; of mode `160000` the content is a commit."""


class Repository:
    """A bare repository, of which each commit is written from objects: names that no disk takes, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=main", ".")
        # As at the large hosts: a commit is sent by its name.
        self.git("config", "uploadpack.allowAnySHA1InWant", "true")

    @property
    def address(self) -> str:
        """Return the address of it as a file."""
        return f"git+file://{self.folder}"

    def git(self, *arguments: str, given: bytes = b"") -> str:
        """Return what git prints."""
        environment = {**os.environ, **NOBODY}
        command, output = ["git", *arguments], subprocess.PIPE
        done = subprocess.run(
            command, cwd=self.folder, env=environment, input=given, stdout=output, stderr=output, check=True
        )
        return done.stdout.decode().strip()

    def commit(self, files: Files, branch: str = "main") -> str:
        """Make a commit with just these files, and return its name."""
        lines = []
        for path, given in files.items():
            mode, content = given if isinstance(given, tuple) else ("100644", given)
            raw = content if isinstance(content, bytes) else content.encode()
            blob = str(content) if mode == "160000" else self.git("hash-object", "-w", "--stdin", given=raw)
            lines.append(f"{mode} {blob}\t{path}")
        index = self.folder / "index"
        index.unlink(missing_ok=True)
        self.git("update-index", "-z", "--index-info", given="\0".join([*lines, ""]).encode())
        tree = self.git("write-tree")
        parent = self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        commit = self.git("commit-tree", tree, *(["-p", parent] if parent else []), "-m", "a commit")
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def skill(self, name: str = "greet", text: str = "Say hello.", branch: str = "main") -> str:
        """Make a commit with one skill, and return its name."""
        files: Files = {
            f"skills/{name}/SKILL.md": SKILL.format(name=name, text=text),
            f"skills/{name}/scripts/run.sh": ("100755", "echo hello\n"),
        }
        return self.commit(files, branch)


class GitSite:
    """Repositories over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[tuple[str, str]] = []
        """Paths, and the header `Authorization` of each request."""
        self.authorization = ""
        """What it has to be; empty: everybody may."""
        self.pages: dict[str, bytes] = {}
        """What is at other paths."""
        self.leads_to = ""
        """Where every request is redirected."""


class _Backend(Requests):
    def __init__(self, *args: Any, root: Path) -> None:
        self._root = root
        super().__init__(*args)

    def respond(self) -> None:
        site: GitSite = self.state
        path, _, query = self.path.partition("?")
        authorization = self.headers.get("Authorization", "")
        site.requests.append((self.path, authorization))
        if site.leads_to:
            self.answer(307, Location=site.leads_to + self.path)
        elif site.authorization and authorization != site.authorization:
            self.answer(401, WWW_Authenticate='Basic realm="x"')
        elif path in site.pages:
            self.answer(200, site.pages[path])
        else:
            self._ask_git(path, query)

    def _ask_git(self, path: str, query: str) -> None:
        environment = {
            "PATH": os.environ["PATH"], **NOBODY,
            "GIT_PROJECT_ROOT": str(self._root), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }  # fmt: skip
        body = self.body()
        environment["CONTENT_LENGTH"] = str(len(body))
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.answer(int(fields.pop("Status", "200").split()[0]), content, **fields)


def serving_git(root: Path, tls: ssl.SSLContext | None = None) -> AbstractContextManager[GitSite]:
    """Serve the repositories of a folder by `git http-backend`."""
    return served(partial(_Backend, root=root), GitSite, tls=tls)
