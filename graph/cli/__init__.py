"""The command `skills-agent`."""
