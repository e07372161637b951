# SPDX-License-Identifier: Apache-2.0
"""Helpers for the adapters of tools: a benchmark made from two functions, and checks of parameters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ktrial.bench.benchmark import (
    GENERATOR_PARAMETER,
    Invocation,
    Parameters,
    ParsedRun,
    Probe,
    RawOutput,
    check_exit,
    quoted,
)
from ktrial.kit.errors import BadInput, BadRun, UnknownName
from ktrial.kit.formats.tool_output import Quantity
from ktrial.kit.outcome import ANOTHER, Measurement, Outcome
from ktrial.machine.facts import FactBook

#: A tool may take at most this many seconds to print its version.
VERSION_LIMIT_S = 10.0
#: A run shorter than this share of the requested time measures something else.
_LEAST_OF_TIME = 0.9
_OTHER_VERSION = "use another version of the tool"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """The programs that a tool needs, the packages that contain them, and how to ask for the tool's version.

    `version` is the command line that prints the version; empty if there is none. `version_pattern` matches stdout
    or stderr, with one group for each program.
    """

    needs: tuple[str, ...]
    packages: Mapping[str, str] = {}
    version: tuple[str, ...] = ()
    version_pattern: str = ""


class RemoteLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How a benchmark runs with its load from another machine, the generator.

    `server` describes the programs on the measured machine, `generator` those on the generator. `command` builds an
    invocation with a `generator` part. Parameters named in `without` are invalid with such a load; `parameters` are
    valid only with such a load.
    """

    what: str
    server: Program
    generator: Program
    outcomes: tuple[Outcome, ...]
    command: Callable[[Parameters], Invocation]
    without: tuple[str, ...] = ()
    parameters: Parameters = {}


class ToolBenchmark(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark that runs an installed tool.

    `command` builds the invocation from all parameters; `reader` converts the output to measurements. A `standalone`
    benchmark needs only its programs and their libraries, and can therefore run in a guest. `beyond_exact` says why a
    guest whose clock counts instructions cannot run the benchmark. With `remote`, another machine can send the load.
    """

    name: str
    what: str
    program: Program
    outcomes: tuple[Outcome, ...]
    parameters: Parameters
    command: Callable[[Parameters], Invocation]
    reader: Callable[[RawOutput, Parameters], ParsedRun]
    root_reason: str | None = None
    user_reason: str | None = None
    probe: Probe | None = None
    standalone: bool = False
    beyond_exact: str | None = None
    least_cpus: int = 1
    remote: RemoteLoad | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        return self.program.needs

    @property
    def packages(self) -> Mapping[str, str]:
        return self.program.packages

    def invocation(self, parameters: Parameters, facts: FactBook) -> Invocation:
        """Return how to run the tool once. Raise BadInput for an unknown parameter or an invalid value."""
        return self.command(self._complete(parameters))

    def version_invocation(self) -> Invocation | None:
        return asking_version(self.program)

    def parse_version(self, raw: RawOutput) -> str | None:
        """Return the version that the tool printed, even if it exited with an error; None if it printed none."""
        return version_in(raw, self.program)

    def parse(self, raw: RawOutput, parameters: Parameters) -> ParsedRun:
        return self.reader(raw, self._complete(parameters))

    def _complete(self, parameters: Parameters) -> Parameters:
        known = {*self.parameters, *(() if self.remote is None else (GENERATOR_PARAMETER, *self.remote.parameters))}
        for name in parameters:
            if name not in known or (name not in self.parameters and GENERATOR_PARAMETER not in parameters):
                hint = f"use one of: {', '.join(self.parameters)}" if self.parameters else f"leave out {name}"
                raise UnknownName(f"parameter of {self.name}", name, self.parameters, hint=hint)
        return {**self.parameters, **parameters}


def asking_version(program: Program) -> Invocation | None:
    """Return the command that prints the version of `program`; None if no command does."""
    return Invocation(argv=program.version, limit_s=VERSION_LIMIT_S) if program.version else None


def version_in(raw: RawOutput, program: Program) -> str | None:
    if not program.version_pattern:
        return None
    text = (raw.stdout + b"\n" + raw.stderr).decode("utf-8", "backslashreplace")
    match = re.search(program.version_pattern, text)
    return ", ".join(match.groups()) if match else None


def one_measurement(name: str, quantity: Quantity | None) -> tuple[Measurement, ...]:
    if quantity is None:
        return ()
    return (Measurement(outcome=name, value=quantity.value, original=quantity.original),)


def whole(parameters: Parameters, name: str, low: int = 1, high: int = 1_000_000_000) -> int:
    """Return the value of a parameter. Raise BadInput unless it is a whole number from `low` to `high`."""
    value = parameters[name]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadInput(
            f"parameter {name}: expected a whole number from {low} to {high}, got {value!r}",
            hint=f"for example -p {name}={low}",
        )
    return value


def flag(parameters: Parameters, name: str) -> bool:
    value = parameters[name]
    if not isinstance(value, bool):
        raise BadInput(f"parameter {name}: expected true or false, got {value!r}", hint=f"for example -p {name}=true")
    return value


def matching(parameters: Parameters, name: str, pattern: str, example: str, what: str = "") -> str:
    """Return the text of a parameter, such as `size` or `scenes[0]`. Raise BadInput if it does not match the pattern.

    In the error, `what` describes valid texts; without it, the `example` does.
    """
    value = parameters[name]
    if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
        wanted = what or f"a value like {example}"
        setting = shlex.quote(f"{name.partition('[')[0]}={example}")
        raise BadInput(f"parameter {name}: expected {wanted}, got {value!r}", hint=f"for example -p {setting}")
    return value


def one_of(parameters: Parameters, name: str, choices: Iterable[str]) -> str:
    value, known = parameters[name], tuple(choices)
    if value not in known:
        raise BadInput(
            f"parameter {name}: expected one of {', '.join(known)}, got {value!r}",
            hint=f"for example -p {name}={known[0]}",
        )
    return str(value)


def display_environment(parameters: Parameters) -> dict[str, str]:
    """Return the variables that select the X server given by the parameters `display` and `authority`."""
    display = matching(parameters, "display", r"[A-Za-z0-9.-]*:\d{1,5}(?:\.\d{1,2})?", ":0")
    authority = matching(parameters, "authority", r"(?:/\S+)?", "/run/user/1000/xauthority")
    return {"DISPLAY": display, **({"XAUTHORITY": authority} if authority else {})}


def everywhere(package: str) -> dict[str, str]:
    return dict.fromkeys(("apt", "dnf", "pacman", "zypper"), package)


def command_line(parameters: Parameters, name: str = "program") -> list[str]:
    """Split a parameter into words as a shell would; an empty parameter gives no words.

    Raise BadInput if the parameter is not text or cannot be split.
    """
    text = parameters[name]
    if not isinstance(text, str):
        raise BadInput(
            f"parameter {name}: expected a command line, got {text!r}",
            hint=f"for example -p {name}='/opt/game --fullscreen'",
        )
    try:
        return shlex.split(text)
    except ValueError as error:
        fault = "a quote is not closed" if "quotation" in str(error) else "it ends with a backslash"
        raise BadInput(
            f"cannot parse parameter {name} {text!r}: {fault}", hint=f"for example -p {name}='/opt/game --fullscreen'"
        ) from None


def collected(raw: RawOutput, name: str) -> bytes:
    """Return the content of a file written by the tool. Raise BadRun if the tool did not write the file."""
    data = raw.files.get(name)
    if data is None:
        raise BadRun(f"the tool exited with status 0 but did not write {name}{quoted(raw)}", hint=_OTHER_VERSION)
    return data


def refusal(raw: RawOutput) -> str | None:
    """Return the first line that a failed tool printed on stderr, or why it failed; None if the tool succeeded."""
    try:
        check_exit(raw)
    except BadRun as error:
        said = next((line for line in raw.stderr.decode("utf-8", "replace").splitlines() if line.strip()), "")
        return said.strip().removesuffix(".") or error.message
    return None


def agree(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise BadRun if the tool reports values other than the `wanted` ones."""
    for name, value in wanted.items():
        if found[name] != value:
            raise BadRun(
                f"{ANOTHER}: asked for {name} {value}, but the tool reports {found[name]}", hint=_OTHER_VERSION
            )


def lasted(asked_s: float, found_s: float) -> None:
    """Raise BadRun if the tool reports a much shorter run than requested."""
    if found_s < _LEAST_OF_TIME * asked_s:
        raise BadRun(
            f"{ANOTHER}: asked for {asked_s:g} s, but the tool reports {found_s:g} s", hint="run the benchmark again"
        )
