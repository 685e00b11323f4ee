"""The persisted index: the next process is fast, and whatever is wrong with the file, nobody notices."""

import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec.msgpack
import pytest

from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.index import Strictness
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource, MemorySource
from tests.skills.sources import skill_files

Change = Callable[[Path], object]


def put(folder: Path, description: str = "Counts herons.") -> Path:
    return skill_files.put(folder, "", f"Instructions about {folder.name}.\n", description)


def an_hour_later() -> int:
    """Return a time at which what was just written is old."""
    return time.time_ns() + 3_600_000_000_000


class Counting(DirectorySource):
    """A folder that counts what is read from it."""

    def __init__(self, folder: Path, label: str = "user", *, trusted: bool = True) -> None:
        super().__init__(folder, label, trusted=trusted, clock=an_hour_later)
        self.reads: list[str] = []

    def read(self, path: str, limit: int) -> bytes:
        self.reads.append(Path(path).parent.name)
        return super().read(path, limit)


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """Return a folder with three skills."""
    for name in ("a", "b", "c"):
        put(tmp_path / "skills" / name)
    return tmp_path / "skills"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Return the path of an index that is not there yet."""
    return tmp_path / "cache" / "skills-agent" / "index"


def discover(skills: Path, index: Path | None) -> tuple[Catalog, list[str]]:
    """Return what a new process would see of a folder, and which files it reads for that."""
    source = Counting(skills)
    return Registry([source], index=index).refresh(), source.reads


def seen(catalog: Catalog) -> object:
    return catalog.digest, catalog.skills, catalog.entries, catalog.diagnostics


def test_the_next_process_reads_only_what_changed_and_sees_the_same(skills: Path, index: Path) -> None:
    (skills / "a" / "SKILL.md").write_text(
        "---\nname: a\ndescription: D\nallowed-tools: Read, Bash(git:*)\nmetadata:\n  k: v\nodd: 1\n---\n"
    )
    put(skills / "bad").write_text("no frontmatter")
    (skills / "away").symlink_to("/usr")
    first, read = discover(skills, index)
    second, read_again = discover(skills, index)
    assert (sorted(read), read_again) == (["a", "b", "bad", "c"], [])
    assert "link-outside" in [found.code for found in second.diagnostics]
    assert seen(second) == seen(first) == seen(discover(skills, None)[0])
    change(skills)
    assert [discover(skills, index)[1] for _ in range(2)] == [["b"], []]


def change(skills: Path) -> None:
    put(skills / "b", "Counts larks.")


def replace_by_link(skills: Path) -> None:
    (skills / "a" / "SKILL.md").unlink()
    (skills / "a" / "SKILL.md").symlink_to("/etc/hostname")


CHANGES: dict[str, Change] = {
    "added": lambda skills: put(skills / "d"),
    "added within": lambda skills: put(skills / "a" / "more" / "d"),
    "changed": change,
    "changed, and of the same size": lambda skills: os.utime(put(skills / "b", "Feeds  herons."), (0, 0)),
    "gone": lambda skills: (skills / "c" / "SKILL.md").unlink(),
    "gone with its folder": lambda skills: shutil.rmtree(skills / "c"),
    "renamed": lambda skills: (skills / "a").rename(skills / "e"),
    "a link": replace_by_link,
    "in another case": lambda skills: (skills / "a" / "SKILL.md").rename(skills / "a" / "skill.md"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changed_between_two_processes_is_seen(skills: Path, index: Path, change: Change) -> None:
    before, _ = discover(skills, index)
    before.search("herons")
    change(skills)

    (after, _), (plain, _) = discover(skills, index), discover(skills, None)

    assert seen(before) != seen(after) == seen(plain)
    for query in ("herons", "larks", "instructions about d", "e"):
        assert after.search(query) == plain.search(query)


def test_a_file_that_could_not_be_read_is_tried_again_here_and_by_the_next_process(
    skills: Path, index: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Flaky(Counting):
        is_broken = True

        def read(self, path: str, limit: int) -> bytes:
            if self.is_broken:
                raise PermissionError(13, "Permission denied")
            return super().read(path, limit)

    source = Flaky(skills)
    registry = Registry([source], index=index)
    assert {entry.status for entry in registry.refresh().entries} == {"skipped"}
    told = [record.levelname for record in caplog.records if "SKILL.md unreadable" in record.message]
    assert told == ["ERROR"] * 3
    assert [skill.name for skill in discover(skills, index)[0].skills] == ["a", "b", "c"]
    source.is_broken = False
    assert [entry.status for entry in registry.refresh().entries] == ["shown"] * 3


def test_what_an_operator_changed_is_not_taken_from_the_index(skills: Path, index: Path) -> None:
    put(skills / "b", "Counts <b>herons</b>.")
    discover(skills, index)

    strict = Registry([Counting(skills)], Strictness(block_angle_brackets=True), index=index).refresh()
    stranger = Registry([Counting(skills, trusted=False)], index=index).refresh()

    assert [skill.name for skill in strict.skills] == ["a", "c"]
    assert [skill.trusted for skill in stranger.skills] == [False] * 3


def test_nothing_of_a_skill_in_memory_is_in_the_index_and_others_cannot_read_it(
    skills: Path, index: Path
) -> None:
    discover(skills, index)[0].search("herons")
    source = MemorySource({"a": {"SKILL.md": skill_files.text("a", description="Secret cranes.")}})
    Registry([source], index=index).refresh().search("cranes")
    assert len(list(index.iterdir())) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in (index, *index.iterdir()))
    assert b"ranes" not in b"".join(path.read_bytes() for path in index.iterdir())


def found(catalog: Catalog, query: str) -> list[str]:
    return [skill.name for skill, _ in catalog.search(query)]


def damage_middle(content: bytes) -> bytes:
    damaged = bytearray(content)
    damaged[len(damaged) // 3 :: 7] = b"\xa5" * len(damaged[len(damaged) // 3 :: 7])
    return bytes(damaged)


BAD_STATES: dict[str, Callable[[bytes], bytes]] = {
    "no database": lambda _: b"this is no database" * 500,
    "damaged in the middle": damage_middle,
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "other content": lambda _: msgspec.msgpack.encode([[7]]),
}


@pytest.mark.parametrize("spoil", BAD_STATES.values(), ids=BAD_STATES)
def test_a_bad_file_changes_no_answer_and_is_made_anew(
    skills: Path, index: Path, spoil: Callable[[bytes], bytes]
) -> None:
    discover(skills, index)[0].search("herons")
    for path in index.iterdir():
        path.write_bytes(spoil(path.read_bytes()))

    for _ in range(2):  # a search that meets a bad file removes it, the next one makes it
        catalog, _ = discover(skills, index)
        assert seen(catalog) == seen(discover(skills, None)[0])
        assert found(catalog, "instructions about b")[0] == "b"
    source = Counting(skills)
    Registry([source], index=index).refresh().search("instructions herons")
    assert source.reads == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE filled SET totals = '{\"rows\": 1}'",
        "UPDATE filled SET totals = 'nonsense'",
        "UPDATE filled SET totals = replace(totals, '\"description\": 3', '\"description\": 1')",
        "UPDATE texts SET key = 'nonsense'",
        "DROP TABLE texts",
        "ALTER TABLE filled DROP COLUMN totals",
    ],
)
def test_tables_with_other_content_change_no_answer(skills: Path, index: Path, change: str) -> None:
    plain = discover(skills, None)[0].search("instructions herons")
    discover(skills, index)[0].search("herons")
    connection = sqlite3.connect(next(index.glob("*.sqlite")))
    connection.execute(change)
    connection.commit()
    connection.close()

    for _ in range(2):
        assert discover(skills, index)[0].search("instructions herons") == plain


def test_a_place_that_cannot_be_written_is_reported_once(
    skills: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    registry = Registry([Counting(skills)], index=tmp_path / "file" / "index")

    with caplog.at_level(logging.WARNING):
        for name in ("d", "e"):
            put(skills / name)
            assert name in [skill.name for skill in registry.refresh().skills]
            assert found(registry.refresh(), "herons")

    assert len([record for record in caplog.records if "index not used" in record.message]) == 1


@pytest.mark.slow
def test_a_locked_file_changes_no_answer(skills: Path, index: Path) -> None:
    discover(skills, index)[0].search("herons")
    change(skills)
    holder = sqlite3.connect(next(index.glob("*.sqlite")))
    holder.execute("BEGIN IMMEDIATE")

    catalog, _ = discover(skills, index)

    assert found(catalog, "larks") == ["b"]
    holder.close()


PROCESS = """
import json, sys, time
from pathlib import Path
from skills_agent.skills.library.index import Strictness
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource
folder, index, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
later = lambda: time.time_ns() + 10**13
for round in range(rounds):
    catalog = Registry([DirectorySource(folder, "user", clock=later)], index=index).refresh()
    hits = catalog.search("instructions herons", 100)
    mine = folder / f"mine-{sys.argv[4]}-{round}"
    mine.mkdir()
    (mine / "SKILL.md").write_text(f"---\\nname: {mine.name}\\ndescription: Counts herons.\\n---\\n")
    names = {skill.name for skill in catalog.skills}
    assert {skill.name for skill, _ in hits} == names, (hits, names)
    assert all(f"mine-{sys.argv[4]}-{earlier}" in names for earlier in range(round))
print(json.dumps(sorted(names)))
"""


@pytest.mark.slow
def test_processes_that_write_at_once_all_see_what_is_there(skills: Path, index: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(skills), str(index), "3", str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    outputs = [process.communicate(timeout=60) for process in processes]

    assert [process.returncode for process in processes] == [0] * 3, [error for _, error in outputs]
    assert all({"a", "b", "c"} < set(json.loads(output)) for output, _ in outputs)
    assert all("Traceback" not in error for _, error in outputs)
    catalog, _ = discover(skills, index)
    assert len(catalog.skills) == 3 + 3 * 3
    assert len(catalog.search("herons", 100)) == len(catalog.skills)
    checked = sqlite3.connect(next(index.glob("*.sqlite")))
    assert checked.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    checked.close()
