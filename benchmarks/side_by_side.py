"""Compare this project's reading of skills with deepagents' SkillsMiddleware and skills-ref, in one run.

    python benchmarks/side_by_side.py

All read the same folders: real skills, folders with one hostile skill, and generated ones. Each is used as
its documentation shows. CPU times are medians of interleaved rounds, and only their ratios are printed.
"""

import argparse
import json
import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, NamedTuple

import skills_ref  # type: ignore[import-untyped]
from agents_compared import Agents, checkpoint_bytes, turn
from deepagents.backends import FilesystemBackend
from deepagents.middleware.skills import SkillsMiddleware
from skills_ref.errors import SkillError  # type: ignore[import-untyped]

from skills_agent.skills.library.registry import Registry
from skills_agent.skills.sources import DirectorySource

PROJECT = Path(__file__).resolve().parent.parent
CORPUS = PROJECT.parent / "shared" / "corpus" / "skills"
SIZES = (10, 100, 1_000)
SECONDS = 10
"""For one hostile folder of four skills, with the start of a process."""
VERBS = ("write", "check", "convert", "compare", "draft", "audit", "translate", "plan", "extract", "merge")
NOUNS = (
    *("report", "invoice", "release", "ledger", "contract", "deployment", "incident", "survey", "budget"),
    *("schema", "backup", "ticket", "review", "summary", "migration", "forecast", "dataset", "dashboard"),
)

Descriptions = Mapping[str, str]
"""Of the skills that were read, by the path of their SKILL.md below the folder."""


class Reader(NamedTuple):
    """One way to read a folder of skills."""

    name: str
    package: str
    open: Callable[[Path], Callable[[], Descriptions]]
    """Returns a function that reads the folder; called again it reads for another thread of the process."""

    def read_afresh(self, folder: Path) -> Descriptions:
        """Read a folder as a new process does."""
        return self.open(folder)()


def open_ours(folder: Path) -> Callable[[], Descriptions]:
    """Read with this project's registry."""
    registry = Registry([DirectorySource(folder, "folder")])

    def read() -> Descriptions:
        catalog = registry.refresh()
        found = {entry.path: "" for entry in catalog.entries if entry.status != "skipped"}
        found |= {skill.path: skill.description for skill in catalog.skills}
        return {os.path.relpath(path, folder): description for path, description in found.items()}

    return read


def open_deepagents(folder: Path) -> Callable[[], Descriptions]:
    """Read with SkillsMiddleware, which looks one level below a source."""
    backend = FilesystemBackend(root_dir=folder, virtual_mode=True)
    middleware: Any = SkillsMiddleware(backend=backend, sources=["/"])

    def read() -> Descriptions:
        skills = middleware.before_agent({"messages": []}, None, {})["skills_metadata"]
        return {skill["path"].lstrip("/"): skill["description"] for skill in skills}

    return read


def open_skills_ref(folder: Path) -> Callable[[], Descriptions]:
    """Read with skills-ref, which is given each folder one level below, and leave out what it refuses."""

    def read() -> Descriptions:
        found = {}
        for each in sorted(folder.iterdir()):
            if not each.is_dir():
                continue
            try:
                found[f"{each.name}/SKILL.md"] = skills_ref.read_properties(each).description
            except SkillError:
                continue
        return found

    return read


READERS = (
    Reader("skills-agent", "skills-agent", open_ours),
    Reader("deepagents", "deepagents", open_deepagents),
    Reader("skills-ref", "skills-ref", open_skills_ref),
)


def print_row(what: str, *cells: str) -> None:
    """Print a row of the table."""
    print(f"| {what} | " + " | ".join(cells) + " |", flush=True)


# Real skills


class Wanted(NamedTuple):
    """A real skill that must load."""

    path: str
    description: str | None
    """None where it cannot be compared."""


def wanted_skills(corpus: Path) -> list[Wanted]:
    """Return the skills of the corpus that must load."""
    rows = map(json.loads, (corpus / "expected.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        Wanted(row["path"], row["description"] if row["description_exact"] else None)
        for row in rows
        if row["must_load"]
    ]


def read_or_lose(reader: Reader, folder: Path) -> Descriptions:
    """Read a folder; an exception loses all of it."""
    try:
        return reader.read_afresh(folder)
    except Exception:  # noqa: BLE001 - whatever a reader raises is its outcome
        return {}


def print_corpus(corpus: Path) -> None:
    """Print how many real skills each reads, given the top folder, and given every folder that holds some."""
    wanted = wanted_skills(corpus)
    holding = sorted({Path(skill.path).parent.parent for skill in wanted})
    comparable = {skill.path: skill.description for skill in wanted if skill.description is not None}
    whole, by_hand, equal = [], [], []
    for reader in READERS:
        found = read_or_lose(reader, corpus)
        whole.append(str(sum(skill.path in found for skill in wanted)))
        read: dict[str, str] = {}
        for folder in holding:
            for below, description in read_or_lose(reader, corpus / folder).items():
                path = os.path.normpath(folder / below)
                read[path] = description or read.get(path, "")
        by_hand.append(str(sum(skill.path in read for skill in wanted)))
        same = sum(read.get(path, "").strip() == written.strip() for path, written in comparable.items())
        equal.append(str(same))
    print_row(f"real skills read of {len(wanted)}, given the folder above all", *whole)
    print_row(f"the same, given each of the {len(holding)} folders that hold some", *by_hand)
    print_row(f"their descriptions as written, of {len(comparable)}", *equal)


# Hostile skills


def hostile_skills() -> dict[str, Callable[[Path], object]]:
    """Return what makes the folder of one bad skill, by a name for it."""
    levels = "\n".join(f"k{n}: &k{n} {{<<: [{', '.join([f'*k{n - 1}'] * 9)}]}}" for n in range(1, 9))
    merges = f"---\nname: bad\nk0: &k0 {{a: b}}\n{levels}\ndescription: Bad.\n---\n"
    date = "---\nname: bad\ndescription: Bad.\nupdated: 2024-99-99\n---\n"
    bom = "\ufeff---\nname: bad\ndescription: Is good, its editor wrote a byte order mark.\n---\n"
    deep = f"---\nname: bad\ndescription: Bad.\nmetadata: {'[' * 3_000}\n---\n"
    bad_bytes = b"---\nname: bad\ndescription: Bad \xff.\n---\n"
    return {
        f"merge-key bomb of {len(merges)} bytes": lambda folder: text(folder, merges),
        "FIFO named SKILL.md": lambda folder: os.mkfifo(folder / "SKILL.md"),
        "date 2024-99-99": lambda folder: text(folder, date),
        "3,000 nested lists": lambda folder: text(folder, deep),
        "not UTF-8": lambda folder: (folder / "SKILL.md").write_bytes(bad_bytes),
        "byte order mark (a good skill)": lambda folder: text(folder, bom),
    }


def text(folder: Path, written: str) -> None:
    """Write a SKILL.md."""
    (folder / "SKILL.md").write_text(written, encoding="utf-8")


def print_hostile(scratch: Path) -> None:
    """Print what is read of a folder of three good skills and a bad one."""
    for number, (what, make) in enumerate(hostile_skills().items()):
        folder = scratch / f"hostile-{number}"
        write_skills(folder, 3)
        (folder / "bad").mkdir()
        make(folder / "bad")
        good = {f"{each.name}/SKILL.md" for each in folder.iterdir() if each.name != "bad"}
        if "good skill" in what:
            good.add("bad/SKILL.md")
        print_row(
            f"good skills read of {len(good)} beside: {what}",
            *(survivors(reader, folder, good) for reader in READERS),
        )


def survivors(reader: Reader, folder: Path, good: set[str]) -> str:
    """Read a hostile folder in a process of its own, and say how many good skills were read."""
    command = [sys.executable, __file__, "--read", reader.name, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"0 (hangs over {SECONDS} s)"
    if done.returncode:
        raised = done.stderr.strip().splitlines()[-1:] or [f"ends with {done.returncode}"]
        return f"0 ({raised[0].partition(':')[0].rpartition('.')[2]})"
    return str(len(good & set(json.loads(done.stdout))))


# Generated skills


def write_skills(folder: Path, count: int) -> Path:
    """Write skills with names and descriptions of equal length, and instructions of 150 lines."""
    for number in range(count):
        rng = random.Random(number)
        sentence = " ".join(islice(cycle([rng.choice(VERBS), "the", *rng.sample(NOUNS, 12)]), 60))
        place = folder / f"{rng.choice(NOUNS)}-{number:04}".rjust(15, "x")
        place.mkdir(parents=True)
        lines = "\n".join(f"{step}. {' '.join(rng.choices(NOUNS, k=7))}" for step in range(150))
        text(place, f"---\nname: {place.name}\ndescription: {sentence[:298]}.\n---\n\n# Steps\n\n{lines}\n")
    return folder


def cpu_ratios(runs: Sequence[Callable[[], object]], rounds: int) -> list[str]:
    """Return the CPU time of each, as a multiple of the first one's."""
    times = cpu_times(runs, rounds)
    return [f"{each / times[0]:.2f}" for each in times]


def cpu_times(runs: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the median CPU seconds of each, over interleaved rounds."""
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, taken in zip(runs, seconds, strict=True):
            begun = process_time()
            run()
            taken.append(process_time() - begun)
    return [median(each) for each in seconds]


def print_reading(folders: Mapping[int, Path], rounds: int) -> None:
    """Print the CPU time of reading, the first time and for another thread of the same process."""
    for size in (100, 1_000):
        first = [partial(reader.read_afresh, folders[size]) for reader in READERS]
        print_row(f"CPU to read {size:,} skills, ratio", *cpu_ratios(first, rounds))
    for size in (100, 1_000):
        warm = [reader.open(folders[size]) for reader in READERS]
        for read in warm:
            read()
        print_row(f"CPU for the next thread, {size:,} skills, ratio", *cpu_ratios(warm, rounds))


def print_agents(folders: Mapping[int, Path], scratch: Path, rounds: int) -> None:
    """Print what skills cost an agent: bytes of its checkpoints, time of a turn."""
    kinds = (Agents.ours, Agents.deepagents)
    for size in SIZES:
        stored = [checkpoint_bytes(kind, folders[size], scratch) for kind in kinds]
        print_row(f"bytes of checkpoint a turn, {size:,} skills", *map("{:,}".format, stored), "")
    turns = [turn(kind, folders[size]) for kind in kinds for size in (5, 100)]
    times = cpu_times(turns, 8 * rounds)
    ratios = [f"{many / few:.2f}" for few, many in zip(times[::2], times[1::2], strict=True)]
    print_row("CPU of a first turn with 100 skills, ratio to 5 skills", *ratios, "")


def print_all(corpus: Path, rounds: int) -> None:
    """Print the table."""
    print_row("", *(f"{reader.name} {version(reader.package)}" for reader in READERS))
    print("|---|" + "---:|" * len(READERS))
    print_corpus(corpus)
    with TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        print_hostile(scratch)
        folders = {size: write_skills(scratch / f"skills-{size}", size) for size in (5, *SIZES)}
        print_reading(folders, rounds)
        print_agents(folders, scratch, rounds)


def main(arguments: Iterable[str] | None = None) -> None:
    """Print the table, or read one folder for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="folder of real skills")
    parser.add_argument("--rounds", type=int, default=7, help="of each measurement of time")
    parser.add_argument("--read", nargs=2, metavar=("READER", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    logging.disable()
    if chosen.read:
        name, folder = chosen.read
        (reader,) = (each for each in READERS if each.name == name)
        print(json.dumps(sorted(reader.read_afresh(Path(folder)))))
    else:
        print_all(chosen.corpus, chosen.rounds)


if __name__ == "__main__":
    main()
