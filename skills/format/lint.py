"""Check skills by the letter of agentskills.io/specification, with the rules of discovery.

A finding that is only a warning at discovery may be an error here: rules.py has the severities.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from skills_agent.skills.confined import read_beneath
from skills_agent.skills.format.frontmatter import body_start
from skills_agent.skills.format.reading import read_body
from skills_agent.skills.format.requirements import is_version
from skills_agent.skills.format.rules import (
    EXTENSIONS,
    MAX_NAME,
    Finding,
    FrontmatterError,
    as_strict,
    check_for_authors,
    diagnostic,
)
from skills_agent.skills.library.admission import requirement_findings
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.contents import (
    ContentLimits,
    Member,
    SnapshotError,
    list_contents,
    resource_type,
)
from skills_agent.skills.library.discovery import Discovery
from skills_agent.skills.library.index import SkillReading, Strictness
from skills_agent.skills.skill import Diagnostic, Severity, SkillMetadata
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.walk import SKILL_FILE
from skills_agent.skills.text import one_line
from skills_agent.skills.visible import Kind, hidden_in

_LABEL = "lint"
HIDDEN: Final = "invisible-characters"
MAX_FILE_BYTES: Final = 2_000_000
"""Of a file that is searched for what nobody can see."""
MAX_LINES_REPORTED: Final = 10
"""Of one file."""
MAX_MARKS: Final = 1_000
_NAMED_FILE: Final = re.compile(
    r"(?<![\w./}>~*-])(?:\./)?(?P<path>(?:scripts|references|assets)/(?:[\w-]+/)*[\w-]+(?:\.\w+)+)(?![\w/*<{])"
)
_PROSE: Final = frozenset({".md", ".markdown", ".rst", ".txt"})
_PROGRAMS: Final = frozenset(
    {
        *(".py", ".sh", ".bash", ".zsh", ".ps1", ".bat", ".rb", ".pl", ".php", ".lua", ".r", ".go", ".rs"),
        *(".js", ".mjs", ".cjs", ".ts", ".jsx", ".tsx", ".java", ".c", ".cpp", ".cs", ".swift", ".sql"),
    }
)


class LintReport(NamedTuple):
    """The result of linting a folder."""

    skills: tuple[str, ...]
    """Every SKILL.md that was read, in path order."""
    findings: tuple[Diagnostic, ...]
    """By path and line; an error breaks the specification."""

    def count(self, severity: Severity) -> int:
        """Return how many findings are of that severity."""
        return sum(finding.severity == severity for finding in self.findings)


def lint(path: Path, *, spec: bool = False) -> LintReport:
    """Check a skill's folder (or its SKILL.md), or every skill in a folder of skills.

    Fields that are not of the specification and have an effect here are notes; errors with `spec`.
    """
    folder = path.parent if path.name.upper() == SKILL_FILE.upper() and path.is_file() else path
    source = DirectorySource(folder, _LABEL, required=True)
    discovery = Discovery([source], Strictness(each_note=True), None)
    discovery.scan()
    seen = discovery.readings
    # Only a catalog compares them all: two skills of one name, and names that look alike.
    catalog = Catalog(seen, discovery.passed_over, [_LABEL])
    findings = [as_strict(finding) for finding in (*catalog.diagnostics, *requirement_findings(catalog))]
    for skill in seen:
        if skill.metadata is not None:
            found = [diagnostic(finding, skill.entry.path) for finding in _check_body(source, skill)]
            findings += map(as_strict, [*found, *_check_files(Path(skill.entry.path))])
    if not spec:
        findings = [replace(each, severity="info") if each.code in EXTENSIONS else each for each in findings]
    if not seen and not any(finding.severity == "error" for finding in findings):
        missing = Finding("skill-file-missing", "There is no SKILL.md in the folder.")
        findings.append(diagnostic(missing, os.fspath(source.folder / SKILL_FILE)))
    findings = list(dict.fromkeys(findings))  # one skill may be in the folder of another
    findings.sort(key=lambda finding: (finding.path, finding.line or 0))
    return LintReport(tuple(sorted(skill.entry.path for skill in seen)), tuple(findings))


def _check_body(source: DirectorySource, skill: SkillReading) -> Iterable[Finding]:
    path = skill.entry.path
    try:
        raw = source.read(path, skill.entry.size)
        found: list[Finding] = []
        instructions = read_body(raw, found)
        first_line = 1 + raw.count(b"\n", 0, body_start(raw))
        known = skill.metadata
        about = f"{known.description} {known.when_to_use or ''}" if known else ""
        found += check_for_authors(about, instructions, first_line)
        found += _check_version(known)
        found += _missing_files(Path(path).parent, instructions, first_line)
        # The files are searched for these line by line; what a language needs in its prose is none there.
        return [finding for finding in found if finding.code != HIDDEN]
    except OSError as error:
        return [Finding("skill-unreadable", f"The file cannot be read: {error.strerror or error}.")]
    except FrontmatterError as error:
        return [error.finding]


def _check_version(skill: SkillMetadata | None) -> Iterator[Finding]:
    if skill is not None and skill.version and not is_version(skill.version):
        shown = one_line(skill.version, MAX_NAME)
        yield Finding("version-form", f"`{shown}` is no version by PEP 440: it cannot be compared.")


def _missing_files(folder: Path, instructions: str, first_line: int) -> Iterator[Finding]:
    """Find files that the instructions name and the skill does not have."""
    for named in _NAMED_FILE.finditer(instructions):
        if not (folder / named["path"]).exists():
            line = first_line + instructions.count("\n", 0, named.start())
            yield Finding("file-missing", f"`{named['path']}` is named, and is not in the skill.", line)


def _check_files(skill_file: Path) -> Iterator[Diagnostic]:
    """Find what nobody can see in the files of a skill: prose may have what its language needs."""
    folder = skill_file.parent
    try:
        members = list_contents(folder, ContentLimits())
    except SnapshotError:
        return  # It has too many files, or one that cannot be read: loading says so.
    for member in members:
        if member.kind == "link" or member.status.st_size > MAX_FILE_BYTES:
            continue
        try:
            text = read_beneath(folder, member.path, MAX_FILE_BYTES, follow=False).decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        kind: Kind = "program" if is_program(member) else "prose"
        lines = groupby([] if "\0" in text else hidden_in(text, kind), key=itemgetter(0))
        for line, characters in islice(lines, MAX_LINES_REPORTED):
            marks = ", ".join(dict.fromkeys(mark for _, mark in islice(characters, MAX_MARKS)))
            finding = Finding(HIDDEN, f"Nobody can see what stands here: {marks}.", line)
            yield diagnostic(finding, os.fspath(folder / member.path))


def is_program(member: Member) -> bool:
    """Return whether a file is there to be run, and not to be read: then it needs no joiners and marks."""
    by_place = member.kind == "exec" or resource_type(member.path) == "script"
    suffix = Path(member.path).suffix.lower()
    return suffix not in _PROSE and (by_place or suffix in _PROGRAMS)
