"""A workspace with an overlay over it, mounted for real, or a copy of it, and scripts that write there."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from skills_agent.sandbox.layer import Layer, changes
from skills_agent.sandbox.scan import Seen, statuses, telling
from skills_agent.skills.scripts.changes import Change
from tests.forked import run_forked

NOBODY = 65534
MOUNT = (
    'mount -t overlay overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work,userxattr" '
    '"$1/merged" && cd "$1/merged" && eval "$2"'
)


@dataclass
class Overlay:
    """A folder that scripts write over: `lower`, `upper` and what the kernel needs, of one user."""

    place: Path
    user: int
    copied: bool = False
    """Whether scripts write in a copy, which has the place of `upper`."""
    seen: dict[str, Seen] | None = None

    @property
    def lower(self) -> Path:
        return self.place / "lower"

    @property
    def layer(self) -> Layer:
        return Layer(self.lower, self.place / "upper", 0, self.seen)

    def changes(self) -> list[Change]:
        """Return what scripts changed."""
        return changes(self.layer)

    def shell(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program as the user."""
        other = self.user != os.geteuid()
        done: subprocess.CompletedProcess[str] = subprocess.run(  # type: ignore[call-overload]  # the user only sometimes
            command,
            cwd=self.lower,
            capture_output=True,
            text=True,
            errors="replace",
            **({"user": self.user, "group": self.user, "extra_groups": []} if other else {}),
        )
        return done

    def before(self, script: str) -> None:
        """Fill the real folder."""
        done = self.shell("sh", "-euc", script)
        assert done.returncode == 0, done.stderr

    def call(self, function: Callable[[], object]) -> None:
        """Call a function as the user, in a process of its own. Raises FindingError for what it raises."""

        def as_user() -> None:
            os.setreuid(self.user, self.user)
            function()

        run_forked(as_user)

    def clear(self) -> None:
        """Remove what scripts wrote."""
        for name in ("upper", "work"):
            subprocess.run(["chmod", "-R", "u+rwX", self.place / name], check=True)
            shutil.rmtree(self.place / name)
            (self.place / name).mkdir()
            os.chown(self.place / name, self.user, -1)

    def run(self, script: str) -> str:
        """Run a script in the overlay, or in a new copy; return what it printed."""
        if self.copied:
            self.shell("cp", "-a", f"{self.lower}/.", str(self.layer.content))
            there = statuses(self.layer.content)
            self.seen = {path: Seen(*telling(each)) for path, each in there.items()}
            time.sleep(0.01)  # a tick
            done = self.shell("sh", "-euc", 'cd "$1" && eval "$2"', "sh", str(self.layer.content), script)
        else:
            done = self.shell("unshare", "-Urm", "sh", "-euc", MOUNT, "sh", str(self.place), script)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def overlay(user: int, *, copied: bool = False) -> Iterator[Overlay]:
    """Yield an overlay of a user, or a copy, outside of pytest's folders, which nobody may enter."""
    place = Path(tempfile.mkdtemp(prefix="overlay-")).resolve()
    try:
        place.chmod(0o755)
        made = Overlay(place, user, copied)
        for name in ("lower", "upper", "work", "merged"):
            (place / name).mkdir()
            os.chown(place / name, user, -1)
        mount = ("unshare", "-Urm", "sh", "-c", MOUNT, "sh", str(place), ":")
        if not copied and (tried := made.shell(*mount)).returncode:
            pytest.skip(f"no overlay can be mounted here: {tried.stderr.strip()}")
        yield made
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", place], check=False)
        shutil.rmtree(place, ignore_errors=True)


def users() -> list[int]:
    """Return whom scripts are tried as: this user, and nobody where this one is root."""
    return [os.geteuid(), *([NOBODY] if os.geteuid() == 0 else [])]
