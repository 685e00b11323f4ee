"""A real PostgreSQL server from the binaries on this machine, in a temporary folder on a free port."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "postgres"
"""Who owns the server: root may not run it, so there it is the account that the package makes."""
START_SECONDS = 60


class NoPostgresError(Exception):
    """There is no PostgreSQL server on this machine."""


@dataclass(frozen=True)
class Postgres:
    """A running server; its one user has a password, which every connection needs."""

    bin: Path
    folder: Path
    port: int
    password: str

    def dsn(self, database: str = "postgres") -> str:
        """Return the connection string of a database."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Create an empty database and return its connection string."""
        name = f"db_{secrets.token_hex(4)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.dsn(name)

    def execute(self, statement: str) -> None:
        """Run one statement outside of any transaction."""
        import psycopg  # noqa: PLC0415 - an extra of the project

        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = f"-h 127.0.0.1 -p {self.port} -k {self.folder}"
        log = str(self.folder / "log")
        self._control("start", "-w", "-t", str(START_SECONDS), "-l", log, "-o", options)

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; `immediate` is what a crash does: every connection breaks."""
        self._control("stop", "-w", "-m", mode)

    def _control(self, *words: str) -> None:
        run_as_owner([self.bin / "pg_ctl", "-s", "-D", self.folder / "data", *words])


@contextmanager
def postgres_server(*settings: str) -> Iterator[str]:
    """Run a server for the block and yield the connection string of an empty database.

    Raises NoPostgresError where the machine has none.
    """
    with running_postgres(*settings) as server:
        yield server.new_database()


@contextmanager
def running_postgres(*settings: str) -> Iterator[Postgres]:
    """Run a server for the block; `settings` are lines of postgresql.conf, as `fsync = off`.

    Raises NoPostgresError where the machine has none.
    """
    binaries = find_binaries()
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        password = secrets.token_hex(16)
        _make_cluster(binaries, folder, password, settings)
        server = _started(binaries, folder, password)
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):  # a test may have stopped it
                server.stop()


def find_binaries() -> Path:
    """Return the folder of initdb, pg_ctl and postgres. Raises NoPostgresError."""
    for folder in _candidates():
        if all((folder / name).is_file() for name in ("initdb", "pg_ctl", "postgres")):
            return folder
    raise NoPostgresError("no PostgreSQL server here: install one (apt-get install postgresql)")


def run_as_owner(command: list[str | Path]) -> None:
    """Run a program as the account that owns servers; its output is in the error where it fails."""
    owner = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    # pg_ctl hands its output to the server, which would keep a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(  # type: ignore[call-overload]  # the names of a user and a group
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"}, **owner,
        )  # fmt: skip
        output.seek(0)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, command, output.read().decode())


def _candidates() -> Iterator[Path]:
    if initdb := shutil.which("initdb"):
        # What is on PATH may be a link; the server looks for its other programs beside itself.
        yield Path(initdb).resolve().parent
    if config := shutil.which("pg_config"):
        yield Path(subprocess.check_output([config, "--bindir"], text=True).strip())
    found = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    yield from sorted(found, key=lambda folder: float(folder.parent.name), reverse=True)


def _make_cluster(binaries: Path, folder: Path, password: str, settings: tuple[str, ...]) -> None:
    secret = folder / "password"
    secret.write_text(password, encoding="ascii")
    if os.geteuid() == 0:
        shutil.chown(secret, USER)
    options = ("--no-sync", "--no-locale", "--encoding=UTF8", f"--username={USER}", "--auth=scram-sha-256")
    run_as_owner([binaries / "initdb", *options, f"--pwfile={secret}", f"--pgdata={folder / 'data'}"])
    with (folder / "data" / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in settings)


def _started(binaries: Path, folder: Path, password: str) -> Postgres:
    """Start on a free port, and on another where somebody took it in between."""
    while True:
        server = Postgres(binaries, folder, _free_port(), password)
        try:
            server.start()
        except subprocess.CalledProcessError as error:
            log = (folder / "log").read_text(encoding="utf-8", errors="replace")
            if "Address already in use" not in log:
                raise RuntimeError(f"The server does not start: {error.output}\n{log}") from error
            (folder / "log").unlink()
        else:
            return server


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
