"""How diagnostics and what became of a SKILL.md are told: to people as a line, to machines as JSON."""

from typing import Any

from skills_agent.graph.cli.printing import line_of
from skills_agent.skills.library.catalog import CatalogEntry
from skills_agent.skills.skill import Diagnostic


def diagnostic_line(found: Diagnostic) -> str:
    """Return a diagnostic as one line: severity, place, code, what it is, what to do."""
    place = f"{found.path}:{found.line}" if found.line else found.path
    return line_of(f"{found.severity}: {place}: {found.message} {found.advice} ({found.code})")


def diagnostic_json(found: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic with all its facts."""
    return {
        "code": found.code,
        "severity": found.severity,
        "message": found.message,
        "path": found.path,
        "line": found.line,
        "advice": found.advice,
    }


def entry_json(entry: CatalogEntry) -> dict[str, Any]:
    """Return what became of one SKILL.md."""
    return {
        "name": entry.name,
        "source": entry.source,
        "path": entry.path,
        "status": entry.status,
        "reason": entry.reason,
        "diagnostics": [diagnostic_json(each) for each in entry.diagnostics],
    }
