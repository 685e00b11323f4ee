"""A group of commands of which each is imported when it is used."""

from importlib import import_module
from typing import cast

import click


class LazyGroup(click.Group):
    """A group that imports its commands lazily; those that are added to it come first."""

    def __init__(self, *args: object, homes: dict[str, str], **attrs: object) -> None:
        """Take where each command is, as `module:attribute`."""
        super().__init__(*args, **attrs)  # type: ignore[arg-type]  # click's own arguments, passed through
        self._homes = homes

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which a newcomer needs them."""
        del ctx
        return [*self.commands, *self._homes]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self._homes:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._homes[cmd_name].partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))
