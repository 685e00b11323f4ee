"""Real git repositories, and the server that git comes with, over HTTP."""

import os
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
    "GIT_AUTHOR_DATE": "2026-11-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-11-01T00:00:00Z",
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
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env=environment,
            input=given,
            capture_output=True,
            check=True,
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

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str]] = []
        """Paths, and the header `Authorization` of each request."""
        self.authorization = ""
        """What it has to be; empty: everybody may."""
        self.pages: dict[str, bytes] = {}
        """What is at other paths."""
        self.leads_to = ""
        """Where every request is redirected."""


class _Backend(BaseHTTPRequestHandler):
    def __init__(self, *args: object, root: Path, site: GitSite, **kwargs: object) -> None:
        self._root, self._site = root, site
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        authorization = self.headers.get("Authorization", "")
        self._site.requests.append((self.path, authorization))
        if self._site.leads_to:
            self.send_response(307)
            self.send_header("Location", self._site.leads_to + self.path)
            self.end_headers()
            return
        if self._site.authorization and authorization != self._site.authorization:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if path in self._site.pages:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self._site.pages[path])
            return
        environment = {
            "PATH": os.environ["PATH"], **NOBODY,
            "GIT_PROJECT_ROOT": str(self._root), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }  # fmt: skip
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        environment["CONTENT_LENGTH"] = str(len(body))
        done = subprocess.run(["git", "http-backend"], env=environment, input=body, capture_output=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        fields.setdefault("Content-Length", str(len(content)))  # a client of TLS wants to know the end
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - its name in the base class

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        pass


@contextmanager
def serving_git(root: Path, tls: ssl.SSLContext | None = None) -> Iterator[GitSite]:
    """Serve the repositories of a folder by `git http-backend`."""
    site = GitSite()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Backend, root=root, site=site))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    site.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = Thread(target=partial(server.serve_forever, 0.01), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
