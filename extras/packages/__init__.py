"""Skills installed by lock and manifest: fetched, verified, signed, proposed and rolled back."""

from typing import Final

from skills_agent.graph.hooks import PUBLISH, Command, Extra

EXTRA: Final = Extra(
    name="packages",
    commands={
        "skills install": Command(
            "skills_agent.packages.commands.install:install",
            "Install skills from a folder, an archive, a repository or a URL.",
        ),
        "skills update": Command(
            "skills_agent.packages.commands.update:update",
            "Install what the sources of skills have now, or put back an earlier version.",
        ),
        "skills remove": Command(
            "skills_agent.packages.commands.remove:remove", "Remove installed skills, and keep a backup."
        ),
        "publish": PUBLISH,
        "publish pack": Command(
            "skills_agent.packages.commands.pack:pack",
            "Make an archive of a skill that anybody can make again, or sign skills.",
        ),
    },
    settings="skills_agent.packages.settings:PackageSettings",
    tools="skills_agent.packages.tools:tools_of",
    vouch="skills_agent.packages.signatures:signatures_of",
)
