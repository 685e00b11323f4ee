"""What an extra or a host brings: the hooks, and which extras are installed.

An extra, of this project or of a host, is a package with an `EXTRA` that an entry point names:

    [project.entry-points."skills_agent.extras"]
    evals = "skills_agent.evals:EXTRA"

The core imports no extra. Imports no LangGraph: every command starts here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skills_agent.skills.errors import SkillsAgentError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "skills_agent.extras"
HOOKS: Final = "hooks_handlers"
"""The operator's hooks: a setting of the extra that runs them."""


class Command(NamedTuple):
    """A command of the command line."""

    target: str
    """`module:function`."""
    help: str
    """Its line in the list of commands, which imports none of them."""


PUBLISH: Final = Command("skills_agent.graph.cli.skills:publish", "Pack, sign and serve skills for others.")
"""The group of what publishes skills, which several extras do."""


@dataclass(frozen=True, kw_only=True)
class Extra:
    """What one extra brings, each as `module:name`, or as a module that has the names of the protocol.

    It is imported when it is first asked for.

    What `build_graph` takes as a parameter has the same name here.
    """

    name: str
    commands: Mapping[str, Command] = field(default_factory=dict)
    """By the words that a person types: `eval`, `skills install`."""
    settings: str = ""
    """The class of its settings: their names, with their types."""
    tools: str = ""
    """What makes its tools (`ExtraTools`) of the services; None where there are none."""
    own_skills: str = ""
    """What makes the source of a caller's own skills (`OwnSource` in skills/library/callers.py)."""
    database: str = ""
    """Threads, journal and locks in PostgreSQL (`Postgres` in graph/threads/opened.py)."""
    runner: str = ""
    """The sandbox (`Sandbox` in skills/scripts/choice.py)."""
    lines: str = ""
    """What reads command lines (`CommandLines` in skills/policy/command_lines.py)."""
    held: str = ""
    """What takes answers about changes that wait for a person (`HeldChanges` in graph/cli/thread.py)."""
    needs: str = ""
    """What knows the needs of skills (`Needs` in skills/machine.py), and makes of the settings the `machine`
    that they are held against."""
    servers: str = ""
    """What makes the servers of tools and skills (`ToolServers`) of the settings, and says how they stand."""
    pins: str = ""
    """What pins by content what starts outside of the sandbox from a workspace (extras/mcp/pins.py)."""
    vouch: str = ""
    """What makes of the settings what says whose signature a skill carries (`Voucher`)."""
    events: str = ""
    """The kinds of events that it adds to the record of runs."""
    measure_draft: str = ""
    """What runs the evals of a proposed skill, before a person is asked (extras/evals/proposals.py)."""
    skill_hooks: str = ""
    """What makes of the services what runs hooks of skills and of the operator (`HooksOf`)."""
    pages: str = ""
    """What writes the page of a thread into a file (extras/pages/thread.py)."""


@cache
def extras() -> tuple[Extra, ...]:
    """Return the installed extras, in the order of their names. Raises SkillsAgentError."""
    return tuple(_imported(entry.name, entry.value) for entry in _entries())


def packages() -> tuple[str, ...]:
    """Return the names of the packages that have the installed extras."""
    return tuple(entry.module for entry in _entries())


@cache
def _entries() -> tuple["EntryPoint", ...]:
    # With its import it takes 40 ms, and many commands ask for no hook.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return tuple(sorted(entry_points(group=GROUP), key=lambda it: it.name))


@cache
def hook(name: str) -> tuple[Any, ...]:
    """Return what the installed extras bring for one hook, imported. Raises SkillsAgentError."""
    if name not in {each.name for each in fields(Extra)} - {"name", "commands"}:
        raise ValueError(f"no hook: {name}")
    found = ((extra.name, getattr(extra, name)) for extra in extras())
    return tuple(_imported(extra, target) for extra, target in found if target)


def hooks_of_tasks(services: Any, at_once: bool) -> Callable[..., Any]:
    """Return what makes the hooks of a task (`HooksOf`). Made `at_once`, a fault in settings is told."""
    made = cache(lambda: first("skill_hooks", lambda _: lambda *_: None)(services))
    if at_once:
        made()
    return lambda *task: made()(*task)  # noqa: PLW0108 - `made` is called late


def first(name: str, otherwise: Any = None) -> Any:
    """Return what the first of them brings for a hook of which one is enough; `otherwise` where none does."""
    return next(iter(hook(name)), otherwise)


def needed(part: str, what: str) -> Any:
    """Return what brings the hook that has its part's name. Raises SkillsAgentError where nothing does."""
    if (found := first(part)) is None:
        raise SkillsAgentError(missing_part(what, part), code="extra-missing")
    return found


def missing_part(name: str, part: str) -> str:
    """Say that what is called so comes with a part that is not installed."""
    return f"{name} comes with the part {part}, which is not here: install skills-agent again, with it."


def _imported(extra: str, target: str) -> Any:
    try:
        # Without a colon, what a module fails to import would be told as a name that its package lacks.
        return resolve_name(target if ":" in target else f"{target}:")
    except (ImportError, AttributeError) as error:
        text = f"The extra {extra} is installed and cannot be used: {error}. Install it again, or remove it."
        raise SkillsAgentError(text, code="extra") from error
