"""Every rule a SKILL.md is held to: its code, how severe it is in each strength, and the advice.

Discovery is lenient: an `error` there means that the skill is skipped, everything else loads.
`lint` and packages are strict: an `error` there means that the file breaks the letter of
agentskills.io/specification. The findings are the same; only their severity differs.
"""

from dataclasses import replace
from typing import Final, Literal, NamedTuple

from skills_agent.skills.skill import Diagnostic, Severity

Strength = Literal["lenient", "strict"]


class Finding(NamedTuple):
    """One broken rule at one place of one file."""

    code: str
    message: str
    line: int | None = None
    """1-based line in the file."""


class Rule(NamedTuple):
    """How severe a broken rule is, and what an author can do."""

    lenient: Severity
    strict: Severity
    advice: str


_QUOTE = "Put the value in double quotes."
_PLAIN_YAML = "Write plain YAML: keys, texts, lists."
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
    "yaml-flow-style": Rule("info", "error", "Write one `- entry` or `key: value` a line, without brackets."),
    "yaml-repaired": Rule("warning", "error", _QUOTE),
    "yaml-line-dropped": Rule("warning", "error", "Indent the line, or remove it."),
    "yaml-duplicate-key": Rule("warning", "error", "Keep one of them."),
    "invisible-characters": Rule("warning", "error", "Remove characters that nobody can see."),
    # Fields of the specification
    "name-missing": Rule("warning", "error", "Add `name:` with the name of the folder."),
    "name-not-text": Rule("warning", "error", "Write the name as plain text."),
    "name-not-folder": Rule("warning", "error", "Name the folder like the skill."),
    "name-not-kebab": Rule("warning", "error", "Use lowercase letters, digits and single hyphens."),
    "name-too-long": Rule("warning", "error", "Keep the name within 64 characters."),
    "name-unsafe": Rule("warning", "error", "Use no slashes, dots at the start, or line breaks in a name."),
    "name-lookalike": Rule("error", "error", "Use the letters that the name seems to have."),
    "description-missing": Rule("error", "error", "Say what the skill does and when to use it."),
    "description-not-text": Rule("warning", "error", _QUOTE),
    "description-too-long": Rule("warning", "error", "Keep the description within 1,024 characters."),
    "compatibility-too-long": Rule("warning", "error", "Keep compatibility within 500 characters."),
    "compatibility-not-text": Rule("warning", "error", "Write compatibility as one text."),
    "compatibility-empty": Rule("info", "warning", "Say what the skill needs, or remove the field."),
    "angle-brackets": Rule("info", "warning", "Avoid `<` and `>` in names and descriptions."),
    "metadata-not-mapping": Rule("warning", "error", "Write metadata as `key: value` lines."),
    "metadata-nested": Rule("info", "warning", "Use texts as the values of metadata."),
    "allowed-tools-not-text": Rule("warning", "error", "Write allowed-tools as names with blanks between."),
    "allowed-tools-form": Rule("info", "warning", "Write allowed-tools as names with blanks between."),
    "tools-not-understood": Rule("warning", "warning", "Write entries as docs/policy.md says."),
    # Fields of clients in the wild
    "field-unknown": Rule("info", "error", _MOVE),
    "field-not-in-spec": Rule("info", "error", _MOVE),
    "field-not-acted-on": Rule("info", "warning", "Do not rely on this field here."),
    "field-spelling": Rule("info", "error", "Use the usual spelling."),
    "field-repeated": Rule("warning", "error", "Keep one of them."),
    "field-not-boolean": Rule("warning", "error", "Write true or false."),
    "requires-not-skills": Rule("info", "warning", "Name the skills that this one needs."),
    # The instructions
    "instructions-long": Rule("info", "warning", "Move detail into references/."),
    "command-in-instructions": Rule("warning", "warning", "Put the command into scripts/ and name it."),
    # Sources and catalog
    "source-unreachable": Rule("warning", "warning", "Check the address, the credentials and the network."),
    "file-refused": Rule("warning", "error", "Store the file again, under a plain relative path."),
    "source-missing": Rule("warning", "error", "Create the folder, or take it out of the configuration."),
    "source-unreadable": Rule("error", "error", "Check the permissions of the folder."),
    "folder-unreadable": Rule("warning", "error", "Check the permissions of the folder."),
    "link-outside": Rule("warning", "error", "Copy what the link leads to, or configure its folder."),
    "scan-limit": Rule("warning", "warning", "Point the source at a smaller folder."),
    "shadowed": Rule("info", "info", "Ask for it as name@source."),
}


REPAIRS: Final = frozenset(
    {
        "yaml-repaired", "yaml-line-dropped", "yaml-duplicate-key", "invisible-characters", "name-missing",
        "name-not-text", "name-unsafe", "description-not-text", "compatibility-not-text",
        "metadata-not-mapping", "metadata-nested", "allowed-tools-not-text",
    }
)  # fmt: skip
"""Rules after whose breach a skill is used otherwise than it is written."""


def diagnostic(finding: Finding, path: str, strength: Strength = "lenient") -> Diagnostic:
    """Say a finding as the diagnostic of one file, as severe as the strength makes it."""
    rule = RULES[finding.code]
    severity = rule.lenient if strength == "lenient" else rule.strict
    return Diagnostic(finding.code, severity, finding.message, path, finding.line, rule.advice)


def strictly(found: Diagnostic) -> Diagnostic:
    """Return a diagnostic of discovery, as severe as in strict."""
    return replace(found, severity=RULES[found.code].strict)
