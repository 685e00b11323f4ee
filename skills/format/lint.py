"""Check skills by the letter of agentskills.io/specification, with the rules of discovery.

A finding that is only a warning at discovery may be an error here: rules.py has the severities.
"""

import os
from pathlib import Path
from typing import NamedTuple

from skills_agent.skills.errors import SkillUndecodableError
from skills_agent.skills.format.reading import Place, read_body, read_metadata
from skills_agent.skills.format.rules import Finding, as_strict, diagnostic
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.discovery import SkillReading
from skills_agent.skills.library.registry import MAX_SKILL_BYTES
from skills_agent.skills.skill import Diagnostic, Severity
from skills_agent.skills.sources.directory import DirectorySource
from skills_agent.skills.sources.protocol import SkillEntry
from skills_agent.skills.sources.walk import SKILL_FILE

_LABEL = "lint"


class LintReport(NamedTuple):
    """The result of linting a folder."""

    skills: tuple[str, ...]
    """Every SKILL.md that was read, in path order."""
    findings: tuple[Diagnostic, ...]
    """By path and line; an error breaks the specification."""

    def count(self, severity: Severity) -> int:
        """Return how many findings are of that severity."""
        return sum(finding.severity == severity for finding in self.findings)


def lint(path: Path, max_skill_bytes: int = MAX_SKILL_BYTES) -> LintReport:
    """Check a skill's folder (or its SKILL.md), or every skill in a folder of skills."""
    folder = path.parent if path.name.upper() == SKILL_FILE.upper() and path.is_file() else path
    source = DirectorySource(folder, _LABEL, required=True)
    scan = source.scan()
    seen = [_read(source, entry, max_skill_bytes) for entry in scan.skills]
    findings = [as_strict(finding) for finding in scan.diagnostics]
    # Only a catalog compares them all: two skills of one name, and names that look alike.
    for entry in Catalog(seen, sources=[_LABEL]).entries:
        findings += entry.diagnostics
    if not seen and not any(finding.severity == "error" for finding in findings):
        missing = Finding("skill-file-missing", "There is no SKILL.md in the folder.")
        findings.append(diagnostic(missing, os.fspath(source.folder / SKILL_FILE), "strict"))
    findings.sort(key=lambda finding: (finding.path, finding.line or 0))
    return LintReport(tuple(skill.entry.path for skill in seen), tuple(findings))


def _read(source: DirectorySource, file: SkillEntry, limit: int) -> SkillReading:
    place = Place(source.label, file.path, file.folder)
    try:
        raw = source.read(file.path, limit + 1)
    except OSError as error:
        message = f"The file cannot be read: {error.strerror or error}."
        return _skipped(file, Finding("skill-unreadable", message))
    if len(raw) > limit:
        return _skipped(file, Finding("skill-too-large", f"The file is over {limit:,} bytes."))
    metadata, diagnostics = read_metadata(raw, place, strength="strict")
    findings: tuple[Finding, ...] = ()
    if metadata is not None:
        try:
            findings = read_body(raw, place).findings
        except SkillUndecodableError as error:
            findings = (Finding("skill-undecodable", f"Not UTF-8 text: {error.cause}."),)
    about_body = (diagnostic(finding, place.path, "strict") for finding in findings)
    return SkillReading(file, source.label, metadata, (*diagnostics, *about_body))


def _skipped(file: SkillEntry, cause: Finding) -> SkillReading:
    return SkillReading(file, _LABEL, None, (diagnostic(cause, file.path, "strict"),))
