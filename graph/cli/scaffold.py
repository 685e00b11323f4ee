"""Begin a skill: a SKILL.md to fill in, and the standard folders."""

import re
from pathlib import Path

import click

from skills_agent.skills.format.rules import MAX_NAME

FOLDERS = ("scripts", "references", "assets")
RULE = f"lowercase letters and digits with single hyphens between, at most {MAX_NAME} characters"

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TEMPLATE = """\
---
name: {name}
description: "What the skill does, and when to use it: the words that a request for it would have."
---

# {title}

Say here, step by step, what to do. Only this text is read when the skill is loaded: put detail that
is not always needed into `references/`, and name the file where it is needed.

## Steps

1. Find out what the user wants to know, and about which file.
2. Run `scripts/example.py FILE` and read its output. (Write it, or remove this step.)
3. Answer with the figures from the output.
"""


class BadSkillNameError(click.UsageError):
    """The name is not what agentskills.io/specification asks for."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name!r} is no name for a skill: use {RULE}.")


def write_skill(parent: Path, name: str) -> Path:
    """Make the folder of a new skill and return it.

    Raises BadSkillNameError, and click's error for a folder that exists or cannot be made.
    """
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise BadSkillNameError(name)
    folder = parent / name
    title = name.replace("-", " ").capitalize()
    try:
        folder.mkdir(parents=True)
        for each in FOLDERS:
            (folder / each).mkdir()
        (folder / "SKILL.md").write_text(_TEMPLATE.format(name=name, title=title), encoding="utf-8")
    except FileExistsError as error:
        raise click.ClickException(f"{folder} exists already. Choose another name.") from error
    except OSError as error:
        raise click.ClickException(f"Cannot make {folder}: {error.strerror}.") from error
    return folder
