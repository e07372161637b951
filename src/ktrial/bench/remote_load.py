# SPDX-License-Identifier: Apache-2.0
"""Benchmarks whose load comes from another machine, the load generator."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from ktrial.bench.adapters._tool import Program, RemoteLoad, ToolBenchmark, asking_version, version_in
from ktrial.bench.benchmark import (
    ADDRESS,
    AUTHORITY,
    GENERATOR_PARAMETER,
    PORT,
    SECRET,
    Benchmark,
    GeneratorPart,
    Invocation,
    Parameters,
    ParsedRun,
    Probe,
    RawOutput,
    Step,
)
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.outcome import Outcome
from ktrial.machine.facts import FactBook


class ServerAddress(NamedTuple):
    """Where the server listens on the measured machine. If `port` is None, each run takes a free port."""

    address: str
    port: int | None = None

    def words(self, port: int, secret: str) -> dict[str, str]:
        """Return the text for each placeholder: the parts of this address, and the password."""
        is_long = ipaddress.ip_address(self.address).version == 6
        host = f"[{self.address}]" if is_long else self.address
        return {ADDRESS: self.address, PORT: str(port), AUTHORITY: f"{host}:{port}", SECRET: secret}


class LoadedBenchmark:
    """A benchmark whose server is on the measured machine, and whose load comes from another machine.

    Implements `Benchmark`. `identify` returns what identifies the generator and a program on it. That text is a
    parameter of the benchmark, because ktrial does not compare runs with different parameters.
    """

    root_reason: str | None = None
    least_cpus = 1
    probe: Probe | None = None

    def __init__(self, benchmark: ToolBenchmark, remote: RemoteLoad, identify: Callable[[Program], str]) -> None:
        self._benchmark = benchmark
        self._identify = identify
        self.remote = remote
        self.name = benchmark.name
        self.what = remote.what
        self.needs = remote.server.needs
        self.packages = remote.server.packages
        self.user_reason = benchmark.user_reason
        self.outcomes: tuple[Outcome, ...] = remote.outcomes

    @property
    def parameters(self) -> Parameters:
        own = {name: value for name, value in self._benchmark.parameters.items() if name not in self.remote.without}
        return {**own, **self.remote.parameters, GENERATOR_PARAMETER: self._identify(self.remote.generator)}

    def invocation(self, parameters: Parameters, facts: FactBook) -> Invocation:
        del facts
        known = self.parameters
        for name, value in parameters.items():
            if name not in known:
                raise UnknownName(
                    f"parameter of {self.name} with --load-from", name, known, hint=f"use one of: {', '.join(known)}"
                )
            if name == GENERATOR_PARAMETER and value != known[name]:
                raise BadInput(
                    f"parameter {name}: ktrial sets it to {known[name]!r}, got {value!r}", hint=f"leave out {name}"
                )
        return self.remote.command({**self._benchmark.parameters, **self.remote.parameters, **parameters})

    def version_invocation(self) -> Invocation | None:
        return asking_version(self.remote.server)

    def parse_version(self, raw: RawOutput) -> str | None:
        return version_in(raw, self.remote.server)

    def parse(self, raw: RawOutput, parameters: Mapping[str, Any]) -> ParsedRun:
        return self._benchmark.parse(raw, parameters)


def with_remote_load(benchmarks: Mapping[str, Benchmark], identify: Callable[[Program], str]) -> dict[str, Benchmark]:
    """Return all benchmarks; if a benchmark supports a remote load, that load replaces its own."""
    return {
        name: LoadedBenchmark(one, one.remote, identify)
        if isinstance(one, ToolBenchmark) and one.remote is not None
        else one
        for name, one in benchmarks.items()
    }


def refuse_unloaded(name: str, benchmark: Benchmark, known: Mapping[str, Benchmark]) -> LoadedBenchmark:
    """Return the benchmark. Raise BadInput if its load cannot come from another machine."""
    if isinstance(benchmark, LoadedBenchmark):
        return benchmark
    able = ", ".join(sorted(one for one, found in known.items() if isinstance(found, LoadedBenchmark)))
    raise BadInput(
        f"cannot measure {name} with --load-from: it has no server that another machine could load",
        hint=f"use --load-from only with one of: {able}",
    )


def fill_words(invocation: Invocation, words: Mapping[str, str]) -> Invocation:
    """Return the invocation with each placeholder in `words` replaced by its text."""

    def text(word: str) -> str:
        for name, value in words.items():
            word = word.replace(name, value)
        return word

    def argv(command: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text(word) for word in command)

    def steps(found: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(
            msgspec.structs.replace(
                one, argv=argv(one.argv), ready=argv(one.ready), stdin=text(one.stdin.decode()).encode()
            )
            for one in found
        )

    part = invocation.generator
    if part is not None:
        environment = {name: text(value) for name, value in part.environment.items()}
        part = GeneratorPart(
            reach=argv(part.reach), threads=part.threads, steps=steps(part.steps), environment=environment
        )
    return msgspec.structs.replace(
        invocation, argv=argv(invocation.argv), steps=steps(invocation.steps), generator=part
    )
