# SPDX-License-Identifier: Apache-2.0
"""A group of commands that are the modules of a package, each loaded when it is used."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import click

from ktrial.kit.errors import UnknownName


class FolderGroup(click.Group):
    """`package` holds one file for each command, called as it, with the command as `command`."""

    package: ModuleType
    noun = "command"

    def list_commands(self, ctx: click.Context) -> list[str]:
        found = (module.name for module in pkgutil.iter_modules(self.package.__path__))
        return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            hint = f"`{ctx.command_path} --help` lists them"
            raise UnknownName(self.noun, cmd_name, self.list_commands(ctx), hint=hint)
        module = importlib.import_module(f"{self.package.__name__}.{cmd_name.replace('-', '_')}")
        command = module.command
        assert isinstance(command, click.Command)
        return command
