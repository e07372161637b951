# SPDX-License-Identifier: Apache-2.0
"""Collects commands in the documentation and the verbs' help that are outside of the executed blocks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from ktrial.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(?:sudo )?(?:\./)?ktrial ([^`\n]+)`")
_LINE = re.compile(r"^\s*(?:\$ )?(?:sudo )?(?:\./)?ktrial ([a-z-].*)$")
#: A placeholder in a command: SESSION, KERNEL, DIR, SESSION/3, T0=…, [TRIAL], ….
_PLACEHOLDER = re.compile(r"…|^\W*[A-Z][A-Z_]+\b|=[A-Z]{3,}\b|%command%")


class Documented(NamedTuple):
    """A command and its place. A command that is only mentioned in a sentence may lack words."""

    place: str
    words: tuple[str, ...]
    mentioned: bool = False

    @property
    def whole(self) -> bool:
        """Return whether the command is complete."""
        return not any(_PLACEHOLDER.search(word) for word in self.words)


def documented() -> list[Documented]:
    """Return all commands, each one once."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/tutorials").glob("*.md"))]
    found = [one for file in files for one in _in_text(str(file.relative_to(ROOT)), file.read_text(encoding="utf-8"))]
    found += _in_help(cli, click.Context(cli, info_name="ktrial", **cli.context_settings))
    return list({(one.words, one.mentioned): one for one in found}.values())


def _in_text(place: str, text: str) -> Iterator[Documented]:
    for match in _FENCE.finditer(text):
        if match[1] in {"sh", "text", ""}:
            yield from _in_lines(place, match[2])
    for match in _INLINE.finditer(_FENCE.sub("", text)):
        yield Documented(place, _words(match[1]), mentioned=True)


def _in_help(command: click.Command, context: click.Context) -> Iterator[Documented]:
    examples = [part for part in (command.help or "").split("\n\n") if part.startswith("\b")]
    yield from _in_lines(f"{context.command_path} --help", "\n".join(examples))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from _in_help(below, click.Context(below, info_name=name, parent=context))


def _in_lines(place: str, text: str) -> Iterator[Documented]:
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"; (?=ktrial )", line.partition(" # ")[0].partition("  # ")[0]):
            if match := _LINE.match(part):
                yield Documented(place, _words(match[1]))


def _words(text: str) -> tuple[str, ...]:
    """Return the words of one command, without parts that the shell interprets."""
    words = shlex.split(text, comments=True)
    ends = [index for index, word in enumerate(words) if word in {";", "|", ">"}]
    return tuple(words[: ends[0]] if ends else words)


def context_of(words: tuple[str, ...]) -> click.Context:
    """Return the command's context with parsed parameters. Raise the error that the command line would print."""
    context = cli.make_context("ktrial", list(words))
    while isinstance(context.command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context
