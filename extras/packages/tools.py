"""The tool of this extra: `propose_skill`, where the operator turned it on."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skills_agent.graph.hooks import first
from skills_agent.packages.settings import PackageSettings

if TYPE_CHECKING:
    from skills_agent.graph.services import Services
    from skills_agent.graph.tools.of_extras import ExtraTools
    from skills_agent.state.context import Context


def tools_of(services: "Services") -> "ExtraTools | None":
    """Return the tool and what its question shows; None where skills are not proposed."""
    settings = services.settings
    own = PackageSettings.of(settings)
    is_on = own.propose and settings.enable_skills
    # Nobody has signed what the agent writes.
    if not is_on or settings.approval != "ask" or own.require_signature:
        return None
    from skills_agent.graph.services import usual_model  # noqa: PLC0415 - most never turn it on
    from skills_agent.graph.tools.of_extras import ExtraTools  # noqa: PLC0415
    from skills_agent.packages.propose import ProposeSkill  # noqa: PLC0415
    from skills_agent.skills.policy.tool_spec import PROPOSE_SKILL  # noqa: PLC0415

    is_measured = own.eval_seconds and first("measure_draft")
    proposing = ProposeSkill(
        settings,
        services.library,
        services.trust,
        services.vouchers,
        usual_model(settings, services.model),
        partial(_measure, services) if is_measured else None,
    )
    if not proposing.sources:
        return None
    return ExtraTools([proposing.tool()], proposing.in_place_of_writing, {PROPOSE_SKILL: proposing.measured})


def _measure(services: "Services", folder: Path, base: Path | None, context: "Context") -> str:
    from langgraph.runtime import get_runtime  # noqa: PLC0415

    settings, cancellation = services.settings, services.cancellation()
    chosen = services.models.choose(context)
    runtime = get_runtime()
    control = runtime.control if runtime else None
    text: str = first("measure_draft")(settings, PackageSettings.of(settings).eval_seconds or 0).measure(
        folder,
        base,
        chosen.name,
        chosen.chat,
        lambda: cancellation.is_requested or bool(control and control.drain_requested),
    )
    return text
