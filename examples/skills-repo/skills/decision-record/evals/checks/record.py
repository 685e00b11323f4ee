"""Hold the records of a workspace against the form and the steps that SKILL.md tells.

    record.py NEW OLD     in a workspace with the skill in `skill/`, a new record that supersedes an old one,
                          and `before/` with the old one as it was

What is expected is read out of SKILL.md. Exits with 1 and one line for each fault.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

TEXT = Path("skill/SKILL.md").read_text(encoding="utf-8")
FORM = next(iter(re.findall(r"```markdown\n(.*?)```", TEXT, re.DOTALL)), "")
STEPS = re.findall(r"(?m)^(\d+)\. \*\*", TEXT)
SECTIONS = ["## Context", "## Options", "## Decision", "## Consequences"]
FIELDS = ["- Status:", "- Date:", "- Deciders:"]


def main(new: Path, old: Path) -> int:
    """Print every fault; return the exit code."""
    faults = [*told(), *written(new), *superseded(new, old)]
    print("\n".join(faults) or "all is as told")
    return 1 if faults else 0


def told() -> Iterator[str]:
    """Yield what the skill has to tell and does not."""
    yield from (f"the form has no line `{line}`" for line in [*SECTIONS, *FIELDS] if line not in FORM)
    if [str(number) for number in range(1, len(STEPS) + 1)] != STEPS or len(STEPS) < 10:
        yield f"the steps are numbered {' '.join(STEPS)}"
    for number in (int(each) for each in re.findall(r"\bsteps? (\d+)\b", TEXT)):
        if str(number) not in STEPS:
            yield f"step {number} is spoken of, and there is none"


def written(new: Path) -> Iterator[str]:
    """Yield where a record is not in the form."""
    record = new.read_text(encoding="utf-8")
    headings = re.findall(r"(?m)^## .*$", FORM)
    if re.findall(r"(?m)^## .*$", record) != headings:
        yield f"the sections are not {', '.join(headings)}"
    for line in re.findall(r"(?m)^- \w+:", FORM.partition("## ")[0]):
        if line not in record:
            yield f"there is no line `{line}`"
    folders = re.findall(r"`([\w/]+/)`", next(iter(re.findall(r"Find the folder.*", TEXT)), ""))
    if f"{new.parent.as_posix()}/" not in folders:
        yield f"the folder is none of {', '.join(folders)}"
    example = next(iter(re.findall(r"`docs/adr/(\S+)`", TEXT.replace("\n   ", " "))), "")
    if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", example) or not re.fullmatch(
        r"\d{4}-[a-z0-9-]+\.md", new.name
    ):
        yield f"{new.name} is not named like {example or 'anything that is told'}"


def superseded(new: Path, old: Path) -> Iterator[str]:
    """Yield where the old record is changed in more than its status, or by other words than those told."""
    phrase = next(iter(re.findall(r"`(superseded by) \d{4}`", TEXT)), "")
    before = Path("before", old.name).read_text(encoding="utf-8").splitlines()
    after = old.read_text(encoding="utf-8").splitlines()
    changed = [line for line, was in zip(after, before, strict=False) if line != was]
    wanted = [f"- Status: {phrase} {new.name[:4]}"]
    if len(after) != len(before) or changed != wanted or not phrase or phrase not in FORM:
        yield f"the old record has {changed}, and not only {wanted}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
