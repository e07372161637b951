# SPDX-License-Identifier: Apache-2.0
"""The manual page, made from the commands themselves: `docs/reference/ktrial.1`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

import click

_EXIT_STATUS = (
    ("0", "done"),
    ("1", "the environment or ktrial failed"),
    ("2", "bad usage or bad input"),
    ("3", "a guard or a --fail-on condition tripped"),
    ("4", "refused"),
    ("5", "privilege is missing"),
    ("130", "interrupted"),
)

# Letters that roff would read as its own or set as something else.
_LETTERS = {
    "\\": "\\e",
    "-": "\\-",
    '"': "\\(dq",
    "'": "\\(aq",
    "`": "\\(ga",
    "^": "\\(ha",
    "~": "\\(ti",
}


def manual_page(command: click.Command, name: str, version: str) -> str:
    """The roff text of the page of `command`, with a section for each of its subcommands."""
    context = click.Context(command, info_name=name, **command.context_settings)
    lines = [f'.TH "{_escape(name.upper())}" "1" "" "{_escape(f"{name} {version}")}" "User Commands"']
    lines += [".nh", ".SH NAME", f"{_escape(name)} \\- {_escape(_summary(command))}"]
    lines += [".SH SYNOPSIS", *_synopsis(command, context)]
    lines += [".SH DESCRIPTION", *_paragraphs(command.help)]
    lines += _options(command, context, ".SH OPTIONS")
    subcommands = list(_subcommands(command, context))
    if subcommands:
        lines.append(".SH COMMANDS")
    for subcommand, below in subcommands:
        lines += [f'.SS "{_escape(below.command_path)}"', *_synopsis(subcommand, below)]
        lines += [".PP", *_paragraphs(subcommand.help), *_options(subcommand, below, ".PP\nOptions:")]
    lines.append('.SH "EXIT STATUS"')
    for status, meaning in _EXIT_STATUS:
        lines += [".TP", f".B {status}", meaning]
    return "\n".join(lines) + "\n"


def _subcommands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """All visible commands below, in order of their names, each followed by its own."""
    if not isinstance(command, click.Group):
        return
    for name in sorted(command.list_commands(context)):
        below = command.get_command(context, name)
        if below is None or below.hidden:
            continue
        below_context = click.Context(below, info_name=name, parent=context, **below.context_settings)
        yield below, below_context
        yield from _subcommands(below, below_context)


def _summary(command: click.Command) -> str:
    """The first sentence of the help, without its full stop and beginning in lower case."""
    text = command.short_help or (command.help or "").strip().split("\n\n")[0]
    text = " ".join(text.split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _synopsis(command: click.Command, context: click.Context) -> list[str]:
    pieces = command.collect_usage_pieces(context)
    return [f".B {_escape(context.command_path)}", *(f".RI {_quoted(piece)}" for piece in pieces)]


def _options(command: click.Command, context: click.Context, heading: str) -> list[str]:
    """One paragraph for each option that has help to show."""
    shown = (parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option))
    records = [record for parameter in shown if (record := parameter.get_help_record(context))]
    if not records:
        return []
    lines = [heading]
    for flags, meaning in records:
        lines += [".TP", f"\\fB{_escape(flags)}\\fR", *_filled(meaning or "")]
    return lines


def _paragraphs(text: str | None) -> list[str]:
    r"""Paragraphs of a help text; those that begin with click's mark `\b` keep their lines."""
    lines: list[str] = []
    for number, paragraph in enumerate(re.split(r"\n\s*\n", textwrap.dedent(text or "").strip())):
        if number:
            lines.append(".PP")
        if paragraph.lstrip().startswith("\b"):
            kept = textwrap.dedent(paragraph.lstrip(" ").lstrip("\b\n")).splitlines()
            lines += [".nf", *_lines(kept), ".fi"]
        else:
            lines += _filled(paragraph)
    return lines


def _filled(text: str) -> list[str]:
    return list(_lines([" ".join(text.split())])) if text.strip() else []


def _lines(lines: Iterable[str]) -> Iterator[str]:
    r"""Escaped lines; a dot at the begin of one would be read as a request of roff: `\&` keeps it text."""
    for line in lines:
        escaped = _escape(line)
        yield f"\\&{escaped}" if escaped.startswith(".") else escaped


def _quoted(text: str) -> str:
    return f'"{_escape(text)}"'


def _escape(text: str) -> str:
    """Text as roff shows it unchanged and as it can be copied."""
    return "".join(
        _LETTERS.get(letter) or (letter if letter.isascii() else f"\\[u{ord(letter):04X}]") for letter in text
    )
