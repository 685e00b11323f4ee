"""skills-agent model: which model answers, which there are, and the choice of one."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from skills_agent.graph.cli import options
from skills_agent.graph.cli.printing import echo, is_terminal, table
from skills_agent.graph.layers import set_in_user_file
from skills_agent.graph.models.available import PROVIDERS, default_model, key_of, offers
from skills_agent.graph.setting_values import PREFIX
from skills_agent.graph.settings import Settings
from skills_agent.graph.user_folders import process_environment, user_config_folder

_TASK: Final = "Call the tool `add` with the numbers 19 and 23. Do not answer in words."


@click.command(epilog=options.examples("model", "model anthropic:claude-sonnet-4-5", "model offline"))
@click.argument("name", required=False)
@options.workspace
def model(name: str | None, workspace: Path | None) -> None:
    """Show which model answers, and which there are; with NAME: try that one, and keep it.

    It is asked to call a tool, which takes a few tokens. The choice is kept as the setting `model` in your
    own file of settings.
    """
    settings, environment = Settings.load(workspace), process_environment()
    if name is not None:
        _keep(settings, _try(settings, name))
        return
    default = f"the default {'with' if key_of('openai', environment) else 'without'} OPENAI_API_KEY"
    reason = f"from {settings.origins['model']}" if settings.model else default
    echo(f"{settings.model or default_model(environment)} answers ({reason}).\n")
    here, others = offers(environment)
    table([*here.items(), *others.items()])
    echo("\nTo try one and keep it: skills-agent model NAME")


def choose_at_first(settings: Settings, *, quiet: bool) -> str:
    """Return the model that a person chooses who never chose one; empty where nobody is there to ask.

    A key in the environment never changes in silence who answers: where nobody is asked, stderr tells of it.
    """
    environment = process_environment()
    if key_of("openai", environment):
        return ""
    if is_terminal() and not quiet and not environment.get("CI"):
        here, _ = offers(environment)
        return _ask(settings, here) if len(here) > 1 else ""
    for provider, (model, *_) in PROVIDERS.items():
        if key := key_of(provider, environment):
            hint = f"{key} is set, and the offline model answers. To use it: --model {provider}:{model}"
            click.echo(hint, err=True)
            break
    return ""


def _ask(settings: Settings, here: Mapping[str, str]) -> str:
    echo("Which model should answer? You are asked once; `skills-agent model` changes it.\n")
    table([(f"  {number}", *offer) for number, offer in enumerate(here.items(), 1)])
    chosen: int = click.prompt("\nNumber", type=click.IntRange(1, len(here)), default=1)
    return _keep(settings, [*here][chosen - 1])


def _try(settings: Settings, name: str) -> str:
    """Ask a model for one call of a tool, and say what works; return its whole name. Raises ModelError."""
    from langchain_core.tools import tool

    from skills_agent.graph.models.provider import make_models
    from skills_agent.nodes.model_errors import calling
    from skills_agent.nodes.timeouts import attended
    from skills_agent.nodes.wrapped_models import with_tools
    from skills_agent.state.context import Context

    chosen = make_models(replace(settings, model=name), None).choose(Context())
    if not chosen.writes:
        echo(f"{chosen} is no language model: it was not asked.")
        return chosen.name
    began, label, asked = time.monotonic(), str(chosen), with_tools(chosen.chat, [tool(add)])
    with calling(label):
        reply = attended(lambda: asked.invoke(_TASK), lambda seconds: _wait(label, seconds), lambda: None)
    works = "calls tools" if reply.tool_calls else "called NO tool, without which the agent does little"
    echo(f"{label} answers and {works} ({time.monotonic() - began:.1f} s).")
    return chosen.name


def _wait(model: str, seconds: int) -> None:
    click.echo(f"waiting for {model}, {seconds} s", err=True)


def add(a: int, b: int) -> None:
    """Add two numbers."""


def _keep(settings: Settings, name: str) -> str:
    """Keep the choice of a model in the user's own file of settings, and return it. Raises SettingsError."""
    path = user_config_folder(settings) / "config.toml"
    set_in_user_file(path, "model", name)
    echo(f"Kept as the setting model in {path}.")
    if (origin := settings.origins["model"]).startswith(PREFIX):
        echo(f"{origin} is stronger, and says {settings.model}.")
    return name
