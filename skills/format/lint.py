"""Check skills by the letter of agentskills.io/specification, with the rules of discovery.

A finding that is only a warning at discovery may be an error here: rules.py has the severities.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from skills_agent.skills.errors import SkillUndecodableError
from skills_agent.skills.format.reading import read_body
from skills_agent.skills.format.rules import Finding, as_strict, diagnostic
from skills_agent.skills.library.catalog import Catalog
from skills_agent.skills.library.discovery import Discovery
from skills_agent.skills.library.index import SkillReading, Strictness
from skills_agent.skills.skill import Diagnostic, Severity
from skills_agent.skills.sources.directory import DirectorySource
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


def lint(path: Path, strictness: Strictness = Strictness()) -> LintReport:  # noqa: B008 - an immutable value
    """Check a skill's folder (or its SKILL.md), or every skill in a folder of skills."""
    folder = path.parent if path.name.upper() == SKILL_FILE.upper() and path.is_file() else path
    source = DirectorySource(folder, _LABEL, required=True)
    seen, reported = Discovery([source], strictness, None).scan()
    # Only a catalog compares them all: two skills of one name, and names that look alike.
    findings = [as_strict(finding) for finding in Catalog(seen, reported, [_LABEL]).diagnostics]
    for skill in seen:
        if skill.metadata is not None:
            found = (diagnostic(finding, skill.entry.path) for finding in _check_body(source, skill))
            findings += map(as_strict, found)
    if not seen and not any(finding.severity == "error" for finding in findings):
        missing = Finding("skill-file-missing", "There is no SKILL.md in the folder.")
        findings.append(diagnostic(missing, os.fspath(source.folder / SKILL_FILE)))
    findings.sort(key=lambda finding: (finding.path, finding.line or 0))
    return LintReport(tuple(sorted(skill.entry.path for skill in seen)), tuple(findings))


def _check_body(source: DirectorySource, skill: SkillReading) -> Iterable[Finding]:
    path = skill.entry.path
    try:
        return read_body(source.read(path, skill.entry.size), path).findings
    except OSError as error:
        return [Finding("skill-unreadable", f"The file cannot be read: {error.strerror or error}.")]
    except SkillUndecodableError as error:
        return [Finding("skill-undecodable", f"Not UTF-8 text: {error.cause}.")]
