"""Skills for the tests of sources and registries, and what a source says of them."""

from pathlib import Path

from skills_agent.skills.sources import Source


def text(name: str, rest: str = "", description: str = "Does it.") -> str:
    """Return a SKILL.md."""
    return f"---\nname: {name}\ndescription: {description}\n---\nDo it.\n{rest}"


def put(folder: Path, name: str = "", rest: str = "", description: str = "Does it.") -> Path:
    """Write a skill of a folder; return its SKILL.md."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "SKILL.md"
    path.write_text(text(name or folder.name, rest, description))
    return path


def folders(source: Source) -> list[str]:
    """Return the folders of the skills that a scan finds."""
    return [entry.folder for entry in source.scan().skills]


def codes(source: Source) -> list[str]:
    """Return the codes of what a scan reports."""
    return [diagnostic.code for diagnostic in source.scan().diagnostics]
