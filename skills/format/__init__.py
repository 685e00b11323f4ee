"""A SKILL.md read, and linted."""
