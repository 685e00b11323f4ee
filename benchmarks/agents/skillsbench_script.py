"""Run the tests of a SkillsBench task in a workspace, which stands for its container; or its solution, too.

    python skillsbench_script.py PLACES [solution solve.sh] tests FILE    started in the workspace

The folders beside this file are copied, with the container's paths rewritten: PLACES is JSON, as
`{"/root": ".", "/data": "data"}`. A step that fails is the last, and its exit code is the program's. This
runs their code: `skills-agent eval` starts it in the sandbox. It lies beside each task, and imports nothing
of ours.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

QUIET = "pip() { :; }; pip3() { :; }; apt-get() { :; }; export -f pip pip3 apt-get; exec bash"
"""What a solution would install is there, or is named: nothing is installed."""


def rewritten(text: str, places: Mapping[str, str]) -> str:
    """Return a text with folders of the container as others; `.` is `./`, and nothing before a name."""
    folders = "|".join(sorted(map(re.escape, places), key=len, reverse=True))

    def moved(found: re.Match[str]) -> str:
        folder, slash, name = found.groups()
        if places[folder] == ".":
            return "" if slash and name else "./"
        return places[folder] + slash

    return re.sub(rf"(?<![\w./}}~-])({folders})(?![\w-])(/?)(?=([\w.*{{<\[$])?)", moved, text)


def copy(source: Path, to: Path, places: Mapping[str, str]) -> None:
    """Copy a folder; what is text is rewritten."""
    for file in (each for each in source.rglob("*") if each.is_file()):
        content = file.read_bytes()
        with suppress(UnicodeDecodeError):
            content = rewritten(content.decode(), places).encode()
        target = to / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def run(folder: str, file: str, places: Mapping[str, str], scratch: Path) -> int:
    """Run one file of a folder, of bash or for pytest, and return its exit code."""
    inside = {name: str(Path.cwd() / place) for name, place in places.items()}
    outside = {f"/{name}": f"{scratch}/{name}" for name in ("tests", "solution", "logs")}
    copy(Path(__file__).parent / folder, scratch / folder, {**inside, **outside})
    python, started = Path(sys.executable), scratch / folder / file
    pytest = (python, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "--rootdir", scratch)
    command = ("bash", "-c", f'{QUIET} "$0"', started) if file.endswith(".sh") else (*pytest, started)
    variables = {
        "PATH": os.pathsep.join((str(python.parent), os.environ.get("PATH", os.defpath))),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode


def main() -> int:
    """Run what the command line says, and return the first exit code that is not 0."""
    places, *steps = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "logs", "verifier").mkdir(parents=True)
        codes = (
            run(folder, file, json.loads(places), Path(scratch))
            for folder, file in zip(steps[::2], steps[1::2], strict=True)
        )
        return next(filter(None, codes), 0)


if __name__ == "__main__":
    sys.exit(main())
