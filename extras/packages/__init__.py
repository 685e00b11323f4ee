"""Skills that are installed: locked, verified, signed, proposed and rolled back."""

from typing import Final

from skills_agent.graph.hooks import Command, Extra

EXTRA: Final = Extra(
    name="packages",
    commands={
        "skills install": Command(
            "skills_agent.packages.commands.install:install",
            "Install skills from a folder, an archive, a repository or a URL.",
        ),
        "skills pack": Command(
            "skills_agent.packages.commands.pack:pack",
            "Make an archive of a skill that anybody can make again, or sign skills.",
        ),
        "skills verify": Command(
            "skills_agent.packages.commands.verify:verify",
            "Compare installed skills with skills.lock, file by file.",
        ),
        "skills update": Command(
            "skills_agent.packages.commands.update:update",
            "Install what the sources of skills have now, or put back an earlier version.",
        ),
        "skills uninstall": Command(
            "skills_agent.packages.commands.uninstall:uninstall",
            "Remove installed skills, and keep a backup.",
        ),
    },
    settings="skills_agent.packages.settings:PackageSettings",
    tools="skills_agent.packages.tools:tools_of",
    vouch="skills_agent.packages.signatures:signatures_of",
)
