"""Every rule for a SKILL.md: its code, how severe it is in each strength, the advice, and most of the checks.

Discovery is lenient: an `error` there means that the skill is skipped; everything else loads.
`lint` and packages are strict: an `error` there means that the file breaks the letter of
agentskills.io/specification. The findings are the same; only their severity differs.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from skills_agent.skills.errors import DetailedError, SkillError
from skills_agent.skills.format.dynamic import dynamic_commands
from skills_agent.skills.skill import Diagnostic, Severity
from skills_agent.skills.text import one_line
from skills_agent.skills.visible import DRAWN_LIKE

MAX_NAME: Final = 64
MAX_LINES: Final = 500
"""Of the instructions; the specification recommends it."""
_COMMANDS_REPORTED: Final = 10
"""Of one skill; a file of nothing but commands must not fill the memory."""
_COMMAND_CHARACTERS: Final = 80
_MAX_NOTES: Final = 200
"""Characters of the one note about a skill."""
_IN_CODE: Final = re.compile("`[^`]*`")
_KEBAB: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

NEW_DESCRIPTION: Final = (
    "TODO: what the skill does, and when to use it, in the words that a request for it would have."
)
"""Of a skill that `skills new` began: it is not used before somebody fills it in."""
_PLACEHOLDER: Final = re.compile(r"(?s)\[?TODO\b.*|<[^<>/]*>|Describe what\b.*")
_SAYS_WHEN: Final = re.compile(
    r"(?i)\b(when(ever)?|use[ds]?|if|for|before|after|while|during|triggers?|invoke[ds]?)\b"
)
_LEFT_TO_WRITE: Final = re.compile(
    r"(?m)^[ \t#>*-]*(?:TODO|TBD|FIXME)\b.*|<\.\.\.>|\[TODO\b[^\]\n]*\]?|^Describe what\b.*"
)


class Finding(NamedTuple):
    """One broken rule at one place of one file."""

    code: str
    message: str
    line: int | None = None
    """1-based line in the file."""


class FrontmatterError(DetailedError, SkillError):
    """The frontmatter cannot be read; `finding` says why."""

    code = "frontmatter-unreadable"
    sentence = "{finding.message}"
    finding: Finding


class Rule(NamedTuple):
    """How severe a broken rule is, and what an author can do."""

    lenient: Severity
    strict: Severity
    advice: str
    repair: bool = False
    """Whether a skill that breaks the rule is used otherwise than it is written."""


_QUOTE = "Put the value in double quotes."
_PLAIN_YAML = "Write plain YAML: keys, texts, lists."
_NO_BRACKETS = "Write one `- entry` or `key: value` a line, without brackets."
_TOOLS = "Write allowed-tools as names with blanks between."
_MOVE = "Keep only fields of the specification; put others under metadata."

RULES: Final[dict[str, Rule]] = {
    # The file
    "skill-unreadable": Rule("error", "error", "Check that the file exists and is readable."),
    "skill-undecodable": Rule("error", "error", "Save the file as UTF-8."),
    "skill-too-large": Rule("error", "error", "Move detail into references/."),
    "not-regular-file": Rule("error", "error", "Make SKILL.md a plain file."),
    "skill-file-missing": Rule("error", "error", "Put a file SKILL.md into the folder of the skill."),
    "file-name-case": Rule("info", "warning", "Name the file SKILL.md."),
    # The frontmatter
    "frontmatter-missing": Rule("error", "error", "Start the file with a `---` line, fields, and `---`."),
    "frontmatter-made": Rule(
        "warning", "error", "Start the file with a `---` line, fields, and `---`.", repair=True
    ),
    "frontmatter-unclosed": Rule("error", "error", "Close the frontmatter with a line `---`."),
    "frontmatter-too-large": Rule("error", "error", "Keep the frontmatter under 16 KiB."),
    "frontmatter-not-first": Rule("warning", "error", "Let the file start with `---`."),
    "byte-order-mark": Rule("info", "error", "Save the file as UTF-8 without a byte order mark."),
    "frontmatter-not-mapping": Rule("error", "error", "Write `key: value` lines in the frontmatter."),
    "angle-brackets-refused": Rule("error", "error", "Remove `<` and `>` from the frontmatter."),
    "yaml-invalid": Rule("error", "error", "Check the YAML of the frontmatter."),
    "yaml-anchor": Rule("error", "error", _PLAIN_YAML),
    "yaml-alias": Rule("error", "error", _PLAIN_YAML),
    "yaml-tag": Rule("error", "error", _PLAIN_YAML),
    "yaml-directive": Rule("error", "error", _PLAIN_YAML),
    "yaml-too-deep": Rule("error", "error", "Nest lists and mappings less."),
    "yaml-flow-style": Rule("info", "error", _NO_BRACKETS),
    "yaml-flow-extension": Rule("info", "error", _NO_BRACKETS),
    "yaml-repaired": Rule("warning", "error", _QUOTE, repair=True),
    "yaml-line-dropped": Rule("warning", "error", "Indent the line, or remove it.", repair=True),
    "yaml-duplicate-key": Rule("warning", "error", "Keep one of them.", repair=True),
    "invisible-characters": Rule("warning", "error", "Remove characters that nobody can see.", repair=True),
    # Fields of the specification
    "name-missing": Rule("warning", "error", "Add `name:` with the name of the folder.", repair=True),
    "name-not-text": Rule("warning", "error", "Write the name as plain text.", repair=True),
    "name-not-folder": Rule("warning", "error", "Name the folder like the skill."),
    "name-not-kebab": Rule("warning", "error", "Use lowercase letters, digits and single hyphens."),
    "name-too-long": Rule("warning", "error", "Keep the name within 64 characters."),
    "name-unsafe": Rule(
        "warning", "error", "Use no slashes, line breaks, or dots at the start.", repair=True
    ),
    "name-lookalike": Rule("error", "error", "Use the letters that the name seems to have."),
    "description-missing": Rule("error", "error", "Say what the skill does and when to use it."),
    "description-made": Rule("warning", "error", "Say what the skill does and when to use it.", repair=True),
    "description-placeholder": Rule("error", "error", "Say what the skill does and when to use it."),
    "description-without-when": Rule("info", "warning", "Say when to use the skill: `Use for ...`."),
    "description-not-text": Rule("warning", "error", _QUOTE, repair=True),
    "description-too-long": Rule("warning", "error", "Keep the description within 1,024 characters."),
    "compatibility-too-long": Rule("warning", "error", "Keep compatibility within 500 characters."),
    "compatibility-not-text": Rule("warning", "error", "Write compatibility as one text.", repair=True),
    "compatibility-empty": Rule("info", "warning", "Say what the skill needs, or remove the field."),
    "angle-brackets": Rule("info", "warning", "Avoid `<` and `>` in names and descriptions."),
    "metadata-not-mapping": Rule("warning", "error", "Write metadata as `key: value` lines.", repair=True),
    "metadata-nested": Rule("info", "warning", "Use texts as the values of metadata."),
    "allowed-tools-not-text": Rule("warning", "error", _TOOLS, repair=True),
    "allowed-tools-form": Rule("info", "warning", _TOOLS),
    "tools-not-understood": Rule("warning", "warning", "Write entries as docs/policy.md says."),
    "tools-of-host": Rule("info", "info", "The command line has none: docs/library.md.", repair=True),
    # Fields of clients in the wild
    "field-unknown": Rule("info", "error", _MOVE),
    "field-not-in-spec": Rule("info", "error", _MOVE),
    "field-extension": Rule("info", "error", _MOVE),
    "field-not-acted-on": Rule("info", "warning", "Do not rely on this field here."),
    "hooks-without-effect": Rule("info", "warning", "Do not rely on it here."),
    "hooks-not-understood": Rule("warning", "warning", "Write hooks as docs/hooks.md says."),
    "field-spelling": Rule("info", "error", "Use the usual spelling."),
    "field-repeated": Rule("warning", "error", "Keep one of them."),
    "field-not-boolean": Rule("warning", "error", "Write true or false."),
    "run-mode-unknown": Rule("warning", "error", "Write fork, or leave the field out."),
    "model-form": Rule("warning", "warning", "Name a model as `provider:model`, or write `inherit`."),
    "effort-unknown": Rule("warning", "warning", "Write low, medium, high, xhigh or max."),
    "requires-missing": Rule("info", "warning", "Add the skill, or take its name out of requires."),
    "requires-cycle": Rule("info", "warning", "Let one of them stand without the other."),
    "requires-version": Rule("info", "warning", "Install a version of it that will do, or change requires."),
    "requires-version-form": Rule("warning", "warning", "Write the versions as in `chart-kit>=1.2,<2`."),
    "version-form": Rule("info", "warning", "Write the version as PEP 440 does, e.g. 1.2 or 1.2.0rc1."),
    "requires-not-skills": Rule("info", "warning", "Name the skills that this one needs."),
    # The instructions
    "instructions-long": Rule("info", "warning", "Move detail into references/."),
    "command-in-instructions": Rule("warning", "warning", "Put the command into scripts/ and name it."),
    "placeholder": Rule("info", "warning", "Write what belongs there, or remove it."),
    "file-missing": Rule("info", "warning", "Add the file, or correct its path."),
    "notes": Rule("info", "warning", "skills-agent skills lint says more about each."),
    # Sources and catalog
    "source-unreachable": Rule("warning", "warning", "Check the address, the credentials and the network."),
    "mcp-entry": Rule("warning", "error", "Tell whoever runs the server: its entry breaks SEP-2640."),
    "file-refused": Rule("warning", "error", "Store the file again, under a plain relative path."),
    "source-missing": Rule("warning", "error", "Create the folder, or take it out of the configuration."),
    "source-unreadable": Rule("error", "error", "Check the permissions of the folder."),
    "folder-unreadable": Rule("warning", "error", "Check the permissions of the folder."),
    "folder-not-text": Rule("warning", "error", "Rename the folder, in UTF-8."),
    "link-outside": Rule("warning", "error", "Copy what the link leads to, or configure its folder."),
    "scan-limit": Rule("warning", "warning", "Point the source at a smaller folder."),
    "shadowed": Rule("info", "info", "Ask for it as name@source."),
}


EXTENSIONS: Final = frozenset({"field-extension", "yaml-flow-extension"})
"""Breaches of the specification that have an effect here: `lint` without `--spec` takes them for notes."""
REPAIRS: Final = frozenset(code for code, rule in RULES.items() if rule.repair)
"""Rules after whose breach a skill is used otherwise than it is written."""


def diagnostic(finding: Finding, path: str) -> Diagnostic:
    """Return a finding as the diagnostic of one file, as severe as it is at discovery."""
    rule = RULES[finding.code]
    return Diagnostic(finding.code, rule.lenient, finding.message, path, finding.line, rule.advice)


def one_note(diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """Put everything that only its author can use of a skill into one line.

    Warnings, errors and repairs stay as they are, and so does a note alone. `lint` does not call this.
    """
    notes = [each for each in diagnostics if each.severity == "info" and each.code not in REPAIRS]
    if len(notes) < 2:
        return diagnostics
    named: dict[str, dict[str, None]] = {}
    for note in notes:
        named.setdefault(note.code, {}).update(dict.fromkeys(_IN_CODE.findall(note.message)[:1]))
    parts = (f"{code} ({', '.join(words)})" if words else code for code, words in named.items())
    finding = Finding("notes", f"For its author: {one_line(', '.join(parts), _MAX_NOTES)}.")
    others = [each for each in diagnostics if each not in notes]
    return (*others, diagnostic(finding, notes[0].path))


def as_strict(lenient: Diagnostic) -> Diagnostic:
    """Return a diagnostic of discovery with the severity that it has in strict."""
    return replace(lenient, severity=RULES[lenient.code].strict)


NAME_RULE: Final = f"lower-case letters from a to z, digits and single hyphens, at most {MAX_NAME} characters"


def is_spec_name(name: str) -> bool:
    """Return whether a name is one by the specification, which is safe as that of a folder, too."""
    return len(name) <= MAX_NAME and _KEBAB.fullmatch(name) is not None


def check_fields(
    name: str | None, description: str, folder: str, lines: Mapping[str, int]
) -> Iterator[Finding]:
    """Find the rules that name and description break, besides what reading them found."""
    yield from _check_name(name, folder, lines.get("name"))
    line = lines.get("description")
    if not description:
        yield Finding("description-missing", "The skill has no description.", line)
    if description == NEW_DESCRIPTION:
        yield Finding("description-placeholder", "The description is not filled in.", line)
    elif _PLACEHOLDER.fullmatch(description):
        yield Finding("placeholder", "The description seems not to be filled in.", line)
    if "<" in description or ">" in description:
        yield Finding("angle-brackets", "The description has `<` or `>` in it.", line)


def check_instructions(instructions: str, first_line: int) -> Iterator[Finding]:
    """Find what an author should know of instructions that begin at `first_line` of their file."""
    count = instructions.strip("\n").count("\n") + 1
    if count > MAX_LINES:
        yield Finding("instructions-long", f"The instructions have {count:,} lines, over {MAX_LINES}.")
    for command in islice(dynamic_commands(instructions), _COMMANDS_REPORTED):
        shown = one_line(command.command, _COMMAND_CHARACTERS)
        message = f"`{shown}` is run only where the setting dynamic_context is on."
        line = first_line + instructions.count("\n", 0, command.start)
        yield Finding("command-in-instructions", message, line)


def check_for_authors(description: str, instructions: str, first_line: int) -> Iterator[Finding]:
    """Find what is left to write: the model can use the skill as it is, but not well."""
    if description.isascii() and not _SAYS_WHEN.search(description):
        yield Finding("description-without-when", "The description says what the skill does, and not when.")
    for left in islice(_LEFT_TO_WRITE.finditer(instructions), _COMMANDS_REPORTED):
        line = first_line + instructions.count("\n", 0, left.start())
        message = f"`{one_line(left[0].strip(), _COMMAND_CHARACTERS)}` is left to be written."
        yield Finding("placeholder", message, line)


def _check_name(name: str | None, folder: str, line: int | None) -> Iterator[Finding]:
    if name is None:
        yield Finding("name-missing", f"The skill has no name; its folder `{folder}` gives it one.", line)
        return
    if name == folder and is_spec_name(name):
        return
    plain = name if name.isascii() else unicodedata.normalize("NFKC", name)
    if len(plain) > MAX_NAME:
        yield Finding("name-too-long", f"The name has more than {MAX_NAME} characters.", line)
    if not _is_kebab(plain):
        yield Finding("name-not-kebab", f"The name `{name}` is not in lowercase-with-hyphens.", line)
    if plain != unicodedata.normalize("NFKC", folder):
        yield Finding("name-not-folder", f"The name `{name}` is not that of its folder `{folder}`.", line)
    if "<" in name or ">" in name:
        yield Finding("angle-brackets", "The name has `<` or `>` in it.", line)


def _is_kebab(name: str) -> bool:
    if name.isascii():
        return _KEBAB.fullmatch(name) is not None
    # The reference validator takes the letters and digits of every script.
    return name == name.lower() and all(part.isalnum() for part in name.split("-"))


def lookalikes_among(names: Collection[str]) -> dict[str, str]:
    """Map every name with letters of other scripts to the plain name among the others that it seems to be.

    `сsv-report` with a Cyrillic first letter is not `csv-report`.
    """
    foreign = {name for name in names if not name.isascii()}
    plain = {name.lower(): name for name in names if name.isascii()} if foreign else {}
    drawn = {name: unicodedata.normalize("NFKC", name).translate(DRAWN_LIKE).lower() for name in foreign}
    return {name: plain[latin] for name, latin in drawn.items() if latin in plain}
