"""Record the threads of a release, for the releases after it: `python tests/recorded/record.py v0_1.sqlite`.

Run it once at each release, with the code of that release installed and in an empty folder such as
/tmp/project: the file holds the path of that folder, and of nothing else of the machine. It keeps two
threads: `done`, whose turn is answered, and `waiting`, with an open question about a script. The folder must
be gone when the tests run: what the threads have loaded is theirs.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

SKILL = """\
---
name: rain-gauge
description: Add up rainfall from a table of stations.
---

# Rain gauge

Run `scripts/add_up.py FILE` and answer with its figures.
"""
SCRIPT = "print('all stations: 544 mm')\n"
LOAD = {"tool_calls": [{"name": "load_skill", "args": {"name": "rain-gauge"}, "id": "call-load"}]}
RUN = {
    "tool_calls": [
        {"name": "run_script", "args": {"skill": "rain-gauge", "path": "scripts/add_up.py"}, "id": "call-run"}
    ]
}


def main() -> None:
    """Record in the current folder, and copy the database to the path given, beside this file."""
    place = Path.cwd()
    target = Path(__file__).resolve().parent / sys.argv[1]
    scripts = place / "skills" / "rain-gauge" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "add_up.py").write_text(SCRIPT)
    (scripts.parent / "SKILL.md").write_text(SKILL)
    (place / "replies.json").write_text(
        json.dumps([{"content": "", **LOAD}, {"content": "", **RUN}, "544 mm.", "You are welcome."])
    )
    _run(place, "ask", "How much rain?", "--thread", "done")
    _run(place, "resume", "done", "--approve")
    _run(place, "ask", "How much rain?", "--thread", "waiting")
    (database,) = _home(place).rglob("threads.sqlite")
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    shutil.copy(database, target)
    print(f"{target}: {target.stat().st_size:,} bytes")


def _home(place: Path) -> Path:
    """Return a home folder beside the project: the agent works in none that holds it."""
    return place.with_name(f"{place.name}-home")


def _run(place: Path, *words: str) -> None:
    options = ["--skills-dir", "skills", "--model", "scripted:replies.json"] if words[0] == "ask" else []
    of_user = dict.fromkeys(("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), "")
    environment = {**os.environ, **of_user, "HOME": str(_home(place))}
    command = [sys.executable, "-m", "skills_agent.graph.cli.main", *words, *options]
    finished = subprocess.run(command, cwd=place, env=environment, check=False)
    if finished.returncode not in (0, 3):  # 3: waiting for an approval
        sys.exit(f"{' '.join(words)} failed with {finished.returncode}")


if __name__ == "__main__":
    main()
