"""What real skills need, and which could run here, now: a survey of folders of skills.

    python scripts/real_skills.py                     the corpus beside the project
    python scripts/real_skills.py FOLDER... --each    other folders, and a line for each that lacks something

Nothing of a skill is run or installed. *Nothing is missing* speaks of what its files and its author
name, as far as that is recognised, and of every program that its shell blocks show, examples too; whether it
then does its job, only a run can tell (run_real_skills.py).
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from skills_agent.graph.machine import machine_of
from skills_agent.graph.settings import Settings, registry_of
from skills_agent.needs.instructions import shell_lines
from skills_agent.shell.shell import take_apart
from skills_agent.skills.errors import SkillError
from skills_agent.skills.format.instructions import shows_commands
from skills_agent.skills.library.registry import Registry
from skills_agent.skills.library.resources import resources
from skills_agent.skills.machine import Machine, Missing
from skills_agent.skills.scripts.programs import find_program
from skills_agent.skills.skill import NeedKind, SkillMetadata

CORPUS: Final = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "skills"
KINDS: Final = ("instructions alone", "shell commands", "scripts of its own", "an MCP server")
INSTALLED: Final[frozenset[NeedKind]] = frozenset({"python", "node"})
"""What comes with one approval of a list of packages."""

PLAIN: Final = re.compile(r"[A-Za-z0-9_][\w.+-]*")
"""The name of a program, and no path."""


class Surveyed(NamedTuple):
    """One skill."""

    name: str
    kind: str
    missing: tuple[Missing, ...]
    unknown: tuple[str, ...]
    """Programs that its shell blocks show and that are not here, beside those that are missing."""

    @property
    def outcome(self) -> str:
        """Return what would have to be done before it can run."""
        kinds = {each.need.kind for each in self.missing}
        if not kinds:
            return "shows a program that is not here" if self.unknown else "nothing is missing"
        if kinds <= INSTALLED:
            return "with its packages approved"
        if kinds <= INSTALLED | {"network"}:
            return "with network approved, too"
        named = ("program", "a program"), ("variable", "a key or a setting"), ("server", "an MCP server")
        return "lacks " + next((words for kind, words in named if kind in kinds), "something else")


def main() -> None:
    """Print the tables; exit code 2 where there is no corpus."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, default=[CORPUS])
    parser.add_argument("--each", action="store_true", help="a line for each skill that lacks something")
    chosen = parser.parse_args()
    if missing := [folder for folder in chosen.folders if not folder.is_dir()]:
        parser.exit(2, f"There is no folder {missing[0]}: name one with skills in it.\n")
    surveyed = sorted(survey(chosen.folders))
    print_table("What a skill gives its reader", Counter(each.kind for each in surveyed))
    print_table("Whether it could run on this machine", Counter(each.outcome for each in surveyed))
    reasons = Counter(
        each.need.kind for skill in surveyed for each in {m.need.kind: m for m in skill.missing}.values()
    )
    print_table("Skills that lack one of a kind", reasons)
    if chosen.each:
        for skill in surveyed:
            if lacks := [*(each.text for each in skill.missing), *skill.unknown]:
                print(f"{skill.name}: {skill.outcome}: {', '.join(lacks)}")


def survey(folders: Iterable[Path]) -> Iterator[Surveyed]:
    """Yield every skill of some folders; one that cannot be loaded is reported on stderr."""
    settings = Settings.load()
    for folder in folders:
        registry, machine = registry_of(settings, [folder]), machine_of(settings)
        for skill in registry.refresh().skills:
            if not Path(skill.path).resolve().is_relative_to(folder.resolve()):
                continue
            try:
                yield look_at(skill, registry, machine)
            except SkillError as error:
                print(f"{skill.path}: {error}", file=sys.stderr)


def look_at(skill: SkillMetadata, registry: Registry, machine: Machine) -> Surveyed:
    """Return what a skill is made of and what it lacks. Raises SkillError for one that cannot be loaded."""
    loaded, needs = registry.load(skill.ref), registry.needs(skill.ref)
    types = {each.type for each in resources(registry, skill.ref).resources}
    instructions, commands, scripts, server = KINDS
    if any(need.kind == "server" for need in needs):
        kind = server
    elif "script" in types:
        kind = scripts
    else:
        kind = commands if shows_commands(loaded.instructions) else instructions
    missing = machine.missing(needs, skill.ref, trusted=True)
    named = {each.need.name for each in missing}
    unknown = [
        name for name in programs_shown(loaded.instructions) if name not in named and not is_here(name)
    ]
    return Surveyed(f"{skill.name} ({Path(skill.path).parent})", kind, tuple(missing), tuple(unknown))


def programs_shown(instructions: str) -> list[str]:
    """Return the programs that the shell blocks of instructions call by a plain name, each once.

    A block that the shell's grammar cannot take apart as a whole is read line by line; what is no line then
    shows none.
    """
    blocks: list[list[str]] = []
    last = -1
    for text, number in shell_lines(instructions):
        if number != last + 1:
            blocks.append([])
        blocks[-1].append(text)
        last = number
    wholes = [("\n".join(block), block) for block in blocks]
    lines = (line for whole, block in wholes for line in ([whole] if take_apart(whole) else block))
    commands = (command for line in lines for command in take_apart(line) or ())
    names = (command.program for command in commands if command.program)
    return list(dict.fromkeys(name for name in names if PLAIN.fullmatch(name)))


@cache
def is_here(name: str) -> bool:
    """Return whether a program, or a builtin of bash, has this name."""
    builtins = subprocess.run(["bash", "-c", "compgen -bk"], capture_output=True, text=True, check=True)
    return name in builtins.stdout.split() or find_program(name).path is not None


def print_table(title: str, counts: Counter[str] | Counter[NeedKind]) -> None:
    """Print counts and shares, the most frequent first, as Markdown."""
    total = sum(counts.values())
    print(f"| {title} | skills | share |\n|---|---:|---:|")
    for name, number in counts.most_common():
        print(f"| {name} | {number} | {number / total:.1%} |")
    print()


if __name__ == "__main__":
    main()
