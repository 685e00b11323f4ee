"""The tool of this extra: `propose_skill`, where the operator turned it on."""

from typing import TYPE_CHECKING

from skills_agent.packages.settings import PackageSettings

if TYPE_CHECKING:
    from skills_agent.graph.services import Services
    from skills_agent.graph.tools.of_extras import ExtraTools


def tools_of(services: "Services") -> "ExtraTools | None":
    """Return the tool and what its question shows; None where skills are not proposed."""
    settings = services.settings
    own = PackageSettings.of(settings.extras)
    is_on = own.propose and settings.enable_skills
    # Nobody has signed what the agent writes.
    if not is_on or settings.approval != "ask" or own.require_signature:
        return None
    from skills_agent.graph.tools.of_extras import ExtraTools  # noqa: PLC0415 - most never turn it on
    from skills_agent.packages.propose import ProposeSkill  # noqa: PLC0415
    from skills_agent.skills.policy.tool_spec import PROPOSE_SKILL  # noqa: PLC0415

    proposing = ProposeSkill(services)
    if not proposing.sources:
        return None
    return ExtraTools([proposing.tool()], proposing.in_place_of_writing, {PROPOSE_SKILL: proposing.measured})
