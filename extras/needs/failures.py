"""What a failed run says that it lacks: a module, a program, a package; and what brings it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from skills_agent.needs.declared import need_of
from skills_agent.needs.instructions import packages_installed
from skills_agent.needs.known_names import DISTRIBUTIONS, is_known
from skills_agent.needs.machine_state import install_command, own_module
from skills_agent.skills.machine import Machine
from skills_agent.skills.scripts.runner import ScriptRequest, ScriptResult
from skills_agent.skills.skill import LEARNED, Need, SkillRef

_NO_MODULE: Final = re.compile(
    r"(?m)^\s*(?:ModuleNotFoundError: No module named '(?P<python>[A-Za-z_]\w{0,99})"
    r"|(?:Error: |Error \[ERR_MODULE_NOT_FOUND\]: )Cannot find (?:module|package)"
    r" '(?P<node>(?:@[\w.~-]{1,60}/)?[A-Za-z0-9][\w.~-]{0,98}))"
)
_NO_PROGRAM: Final = re.compile(
    r"(?m)(?:\bline \d+: |^\w*sh: (?:\d+: )?)(?P<shell>[A-Za-z][\w.+-]{0,63}): (?:command )?not found$"
    r"|_execute_child(?s:.{0,2000}?)FileNotFoundError: .{0,60}: '(?P<python>[A-Za-z][\w.+-]{0,63})'"
    r"|\bspawn(?:Sync)? (?P<node>[A-Za-z][\w.+-]{0,63}) ENOENT\b"
    r"|\benv: \W?(?P<env>[A-Za-z][\w.+-]{0,63})\W?: No such file"
)
_NOBODY: Final = SkillRef("", "", "")
_LAST: Final = 20_000
"""Characters at the end of an output that are read."""


def diagnosed(
    result: ScriptResult,
    request: ScriptRequest,
    skill: SkillRef | None,
    machine: Machine | None,
    loaded: Iterable[str],
) -> ScriptResult:
    """Return a result with what brings what a failed run lacked; `machine` is None where it ran elsewhere.

    A command of no skill may be meant for one of the `loaded`. Only packages that are what their name says
    are learned: what a script prints may be anybody's words.
    """
    # `python3 x.py | head` ends with 0, and its traceback says all the same what is missing.
    text = "\n".join([*([result.stdout[-_LAST:]] if result.exit_code else []), result.stderr[-_LAST:]])
    notes, learned = [result.note], list[Need]()
    if result.exit_code:
        learned += (need for need in packages_installed(text, LEARNED, ()) if is_known(need))
    for missing in [*_NO_MODULE.finditer(text)][-1:]:
        name = missing["python"] or missing["node"]
        if own := own_module(request.folder, name):
            notes.append(
                f"{name} is no package but the skill's own {own}. Python finds what is beside the script "
                "that runs: use run_script, or name its folder in PYTHONPATH."
            )
            continue
        notes.append(f"The module {name} is not installed for it.")
        package = DISTRIBUTIONS.get(name, name) if missing["python"] else name
        need = need_of("python" if missing["python"] else "node", package, LEARNED)
        if need and is_known(need):
            learned.append(structs.replace(need, module=name))
        elif skill is None and loaded:
            names = ", ".join(sorted(loaded))
            notes.append(
                f"A command has the packages of a loaded skill ({names}) where its argument skill names it."
            )
        elif skill is not None:
            notes.append(f"{_brings(request)} (with --with PACKAGE, what no file of it names).")
    if learned and skill:
        names = ", ".join(dict.fromkeys(need.name for need in learned))
        notes.append(
            f"Call it again: the question to the person then offers to install {names}. {_brings(request)}."
        )
    notes += _programs(text, machine) if machine else ()
    kept = tuple(learned) if skill and machine else ()
    return replace(result, note=" ".join(filter(None, notes)), learned=kept)


def _brings(request: ScriptRequest) -> str:
    command = install_command(request.skill, request.source, request.skill_place)
    return f"A person can bring what {request.skill} needs: {command}"


def _programs(text: str, machine: Machine) -> Iterator[str]:
    """Say what brings the program that an output misses."""
    names = [next(filter(None, match.groups())) for match in _NO_PROGRAM.finditer(text)][-1:]
    needs = [need for name in names if (need := need_of("program", name, LEARNED))]
    for each in machine.missing(needs, _NOBODY, trusted=False):
        yield f"The program {each.text} is not here: {'; '.join(machine.remedies([each], _NOBODY))}."
