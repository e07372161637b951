# SPDX-License-Identifier: Apache-2.0
"""Turns command lines, as `ktrial ab` takes them, into the arms of a trial."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import msgspec

from ktrial.kit.errors import BadInput, in_lower_case, quoting_hint
from ktrial.trial.protocol.file import ArmFile, CommandFile

#: Replaces a setup or cleanup that was not given.
_NOTHING = ("true",)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")
#: Characters that need a shell: outside of quotes, and in double quotes only those of the second pattern.
_NEEDS_SHELL = re.compile(r"[|&;<>()$`*?]+|(?<!\S)~|^\s*[A-Za-z_]\w*=")
_EXPANDS = re.compile(r"(?<!\\)[$`]")
_LONGEST_NAME = 40


class CommandLines(NamedTuple):
    """Command lines to compare, and the steps around them.

    Each of `setup`, `prepare` and `cleanup` has one line for all commands, one line for each command, or none. `shell`
    runs the lines, for example `("bash",)`; without `shell`, ktrial splits each line into words.
    """

    lines: Sequence[str]
    names: Sequence[str] = ()
    setup: Sequence[str] = ()
    prepare: Sequence[str] = ()
    cleanup: Sequence[str] = ()
    shell: tuple[str, ...] = ()


class ComparedCommand(NamedTuple):
    """An arm and the values of the parameters in its command line."""

    arm: ArmFile
    parameters: Mapping[str, str]


def arms_of_commands(given: CommandLines, parameters: Mapping[str, Sequence[str]]) -> dict[str, ComparedCommand]:
    """Return an arm for each command line and combination of parameters. Raise BadInput for fewer than two arms."""
    around = {"--setup": given.setup, "--prepare": given.prepare, "--cleanup": given.cleanup}
    for option, texts in around.items():
        if len(texts) not in {0, 1, len(given.lines)}:
            raise BadInput(
                f"{option} is given {len(texts)} times for {len(given.lines)} commands",
                hint=f"give {option} once for all commands, or once for each",
            )
    combined = [dict(zip(parameters, chosen, strict=True)) for chosen in product(*parameters.values())]
    commands = [(place, values) for place in range(len(given.lines)) for values in combined]
    if len(commands) < 2:
        raise BadInput(
            f"expected two commands or more, got {len(commands)}",
            hint="write ktrial ab 'CMD1' 'CMD2', or measure one command with `ktrial bench -- CMD`",
        )
    if len(given.names) > len(commands):
        raise BadInput(
            f"-n is given {len(given.names)} times for {len(commands)} commands",
            hint="give -n at most once for each command",
        )
    found: dict[str, ComparedCommand] = {}
    for number, (place, values) in enumerate(commands):
        own = {option: _one(some, place) for option, some in around.items()}
        arm = _arm(given.lines[place], own, values, given.shell)
        name = given.names[number] if number < len(given.names) else None
        found[_free(name or derived_name(command_line(arm.command or ())), found)] = ComparedCommand(arm, values)
    return _marked(found)


def _one(texts: Sequence[str], place: int) -> str | None:
    return None if not texts else texts[place] if len(texts) > 1 else texts[0]


def _arm(line: str, around: Mapping[str, str | None], values: Mapping[str, str], shell: tuple[str, ...]) -> ArmFile:
    def words(text: str | None, what: str) -> tuple[str, ...]:
        return () if text is None else words_of(_filled(text, values), what, shell)

    setup, prepare, cleanup = (words(text, option) for option, text in around.items())
    changes = (CommandFile(run=setup or _NOTHING, undo=cleanup or _NOTHING),) if setup or cleanup else ()
    return ArmFile(command=words(line, "command"), prepare=(prepare,) if prepare else msgspec.UNSET, commands=changes)


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def words_of(line: str, what: str, shell: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that run a command line: `shell` with the line, or without a shell the line's own words.

    Raise BadInput for a line that is empty, or that needs a shell and has none.
    """
    if not line.strip():
        example = "ktrial ab 'sort -n data' 'sort data'" if what == "command" else f"{what} 'make clean'"
        raise BadInput(f"{what}: the command line is empty", hint=f"for example  {example}")
    if shell:
        return (*shell, "-c", line)
    outside = _QUOTED.sub("_", line)
    double = "".join(part for part in _QUOTED.findall(line) if part.startswith('"'))
    if (found := _NEEDS_SHELL.search(outside) or _EXPANDS.search(double)) is not None:
        raise BadInput(
            f"{what} {line!r}: {found[0].strip()!r} needs a shell, and ktrial uses none",
            hint=f"add -S sh (or another shell), or quote {found[0].strip()!r}",
        )
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise BadInput(
            f"{what}: cannot read {line!r} ({in_lower_case(str(error))})", hint=quoting_hint(error)
        ) from None


def _free(name: str, taken: Mapping[str, object]) -> str:
    """Return the name, with a number if it is taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def _marked(found: Mapping[str, ComparedCommand]) -> dict[str, ComparedCommand]:
    """Return the arms. An arm that equals the control is a placebo, which shows differences by chance."""
    control, *_ = found.values()
    return {
        name: one if one is control or one.arm != control.arm else one._replace(arm=ArmFile(placebo=True))
        for name, one in found.items()
    }


def command_line(words: Sequence[str]) -> str:
    """Return the words as one line; for a shell, only the line that the shell runs."""
    return words[-1] if len(words) > 2 and words[-2] == "-c" else shlex.join(words)


def derived_name(line: str) -> str:
    """Return the name of an arm that measures this command line."""
    return re.sub(r"[^A-Za-z0-9._+]+", "-", line).strip("-._+")[:_LONGEST_NAME].rstrip("-._+") or "command"


def shown_name(arm: str, line: str) -> str:
    """Return the displayed name of an arm: its command line, unless a person named it."""
    return line if re.fullmatch(re.escape(derived_name(line)) + r"(-[0-9]+)?", arm) else arm


def parameter_lists(given: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    r"""Parse `-L NAME a,b`; `\,` is a comma in a value. Raise BadInput for a name or value that is given twice."""
    found: dict[str, tuple[str, ...]] = {}
    for name, text in given:
        if name in found:
            raise BadInput(f"-L {name} is given twice", hint=f"write all values in one list: -L {name} a,b,c")
        values = tuple(part.replace("\\,", ",") for part in re.split(r"(?<!\\),", text))
        if len(set(values)) != len(values):
            raise BadInput(f"-L {name} {text} contains a value twice", hint="give each value once")
        found[name] = values
    return found
