"""Skills for the tests of sources that are no folder of ours, and what such a source says of them."""

from pathlib import Path

from skills_agent.skills.sources import Source


def text(name: str, rest: str = "") -> str:
    """Return a SKILL.md."""
    return f"---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n{rest}"


def put(folder: Path, name: str, rest: str = "") -> Path:
    """Write a skill into a folder; return its SKILL.md."""
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(name, rest))
    return path


def folders(source: Source) -> list[str]:
    """Return the folders of the skills that a scan finds."""
    return [entry.folder for entry in source.scan().skills]


def codes(source: Source) -> list[str]:
    """Return the codes of what a scan reports."""
    return [diagnostic.code for diagnostic in source.scan().diagnostics]
