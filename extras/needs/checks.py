"""What scripts look for by themselves: programs, and Python packages that they install or name."""

import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from skills_agent.needs.declared import need_of
from skills_agent.needs.instructions import words_of
from skills_agent.needs.known import is_known
from skills_agent.needs.python_files import requirement
from skills_agent.skills.skill import Need

_NAME: Final = r"[A-Za-z][\w.+-]{0,63}"
_COMMAND: Final = r"(?:command[ \t]{1,9}-[vV]|which|type[ \t]{1,9}-[pP]|hash)[ \t]{1,9}"
_CHECKS: Final = re.compile(
    rf"""(?m)
    (?:^|[;|&(`!{{]|\b(?:if|elif|while|until|then|do)\b)[ \t]*{_COMMAND}
        (?P<shell>{_NAME})(?=[ \t]*(?:$|[)>&|;`\]]|2>))
    | ["'`]{_COMMAND}(?P<said>{_NAME})(?=[ \t]*["'`>&|;])
    | \bwhich(?:Sync)?\(\s{{0,9}}["'](?P<called>{_NAME})["']
    | ["'](?:which|where)["']\s{{0,9}},\s{{0,9}}\[?\s{{0,9}}["'](?P<listed>{_NAME})["']""",
    re.VERBOSE,
)
"""`command -v dot` where a command begins, or in a string; `shutil.which("dot")`; `["which", "dot"]`."""
_LOOP: Final = re.compile(
    r"""\bfor[ \t]{1,9}(?P<variable>\w{1,64})[ \t]{1,9}in[ \t]{1,9}[(\[]?(?P<names>[\w \t,.+"'-]{1,300}+)"""
)
_VARIABLE: Final = re.compile(
    rf"""{_COMMAND}["']?\$\{{?(?P<shell>\w{{1,64}})|\bwhich\((?P<called>\w{{1,64}})\)"""
)
"""`command -v "$tool"`, `shutil.which(tool)`: the names are in a loop."""
_GOES_ON: Final = re.compile(r"(?:\|\||\bor)[ \t\\]*$")
_OR: Final = re.compile(r"[ \t}]*(?:elif|else if|or|\|\|)")
_PIP: Final = re.compile(
    r"""\b(?:pip3?["']?\s{0,9},?\s{0,9}["']?install["']?)(?P<form>\s{0,9},|[ \t]{1,9})"""
    r"""(?P<rest>[^\n|;&)`\]]{1,300})"""
)
_MAX_FOUND: Final = 100
"""Of each kind, in one script: what is found may cost a look through all of it."""
_QUOTED: Final = re.compile(r"""["']([^"'\n]+)["']""")


def programs_checked(text: str, said: str, *, is_shell: bool) -> Iterator[Need]:
    """Yield the programs that a script looks for. Of several in one `if ... elif ...` one will do."""
    groups: list[list[str]] = []
    end = 0
    for match in islice(_CHECKS.finditer(text), _MAX_FOUND):
        name = match["shell"] or match["said"] or match["called"] or match["listed"]
        between = text[end : match.start(match.lastgroup or 0)]
        if f"{name}()" in text or (match["shell"] and not is_shell):  # a function of the script; prose
            continue
        if groups and _is_alternative(between):
            groups[-1].append(name)
        else:
            groups.append([name])
        end = match.end()
    variables = {match["shell"] or match["called"] for match in _VARIABLE.finditer(text)}
    for loop in islice(_LOOP.finditer(text), _MAX_FOUND):
        if loop["variable"] in variables:
            groups += [[name] for name in re.findall(_NAME, loop["names"])]
    for names in groups:
        needs = [need for name in names if (need := need_of("program", name, said))]
        if needs:
            first, others = needs[0], [need.name for need in needs if need.name != needs[0].name]
            instead = tuple(dict.fromkeys([*first.instead, *others]))
            yield Need("program", first.name, instead=instead, said=said)


def _is_alternative(between: str) -> bool:
    """Return whether what stands between two checks makes the second one do for the first."""
    lines = between.split("\n")
    if len(lines) == 1:
        return "&&" not in between and " and " not in between
    return bool(_OR.match(lines[-1]) or _GOES_ON.search(lines[-2]))


def packages_installed(text: str, said: str, modules: Collection[str]) -> Iterator[Need]:
    """Yield the packages that a script installs with pip, or tells people to. `modules` are what it imports.

    In a sentence (`pip install pymupdf to read PDF`) only the first word is surely one.
    """
    for match in islice(_PIP.finditer(text), _MAX_FOUND):
        if "," in match["form"]:
            words = [each for each in _QUOTED.findall(match["rest"]) if not each.startswith("-")]
        else:
            line = text[text.rfind("\n", 0, match.start()) + 1 : match.start("rest")]
            rest = match["rest"]
            for quote in "\"'":
                if line.count(quote) % 2:
                    rest = rest.partition(quote)[0]
            words = words_of(rest)
        for place, word in enumerate(words):
            need = requirement(word.rstrip(",."), said)
            if need is None or not (
                place == 0 or need.specifier or need.extras or need.name in modules or is_known(need)
            ):
                break
            yield need
