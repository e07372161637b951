# SPDX-License-Identifier: Apache-2.0
"""A command group whose commands are the modules of a package, loaded on use; and a command that takes `-WORD`."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Any

import click

from ktrial.kit.errors import UnknownName


class FolderGroup(click.Group):
    """Commands of `package`: each module has the name of its command and defines the click command `command`."""

    def __init__(self, *args: Any, package: ModuleType, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = (module.name for module in pkgutil.iter_modules(self._package.__path__))
        return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            hint = f"run `{ctx.command_path} --help` to list the commands"
            raise UnknownName("command", cmd_name, self.list_commands(ctx), hint=hint)
        module = importlib.import_module(f"{self._package.__name__}.{cmd_name.replace('-', '_')}")
        command = module.command
        assert isinstance(command, click.Command)
        return command


class TakesRemovals(click.Command):
    """A click command whose arguments may be words like `-quiet`, which click would read as options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move words like `-quiet` behind `--`, where click reads them as arguments, but not options like `-y`."""
        end = args.index("--") if "--" in args else len(args)
        removals = [word for word in args[:end] if len(word) > 2 and word[0] == "-" != word[1]]
        others = [word for word in args[:end] if word not in removals]
        return super().parse_args(ctx, [*others, "--", *removals, *args[end + 1 :]])
