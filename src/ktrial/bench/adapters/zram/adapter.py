# SPDX-License-Identifier: Apache-2.0
"""The agent's `zram`: how well and how fast the kernel's algorithms compress memory, on a temporary device."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ktrial.bench.adapters._agent_load import LoadBenchmark, per_second
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.bench.adapters._tool import VERSION_LIMIT_S
from ktrial.bench.benchmark import AgentLoad, Invocation, Parameters, Probe, RawOutput
from ktrial.bench.outcomes import outcome, rate
from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.outcome import Measurement, Outcome
from ktrial.machine.facts import FactBook

#: Value of the parameter `data` if it is not a file.
GENERATED = "generated"
_ALGORITHMS = ("lzo-rle", "lzo", "lz4", "zstd")
#: A rough estimate: preparations, and an algorithm of middling speed.
_EXPECTED_S = 3.0
_BLIND = (
    "One thread and one device, in blocks of 128 KiB from memory to memory: no reclaim, page faults or read-ahead, and "
    "no other CPU that compresses. Generated data is a fixed mix, not anybody's memory: provide a dump of your own."
)


def _ratio(name: str, sentence: str, blind: str, *, headline: bool = False) -> Outcome:
    return outcome(name, "score", "score", sentence, blind, (0.5, 1e6), direction="higher", headline=headline)


def _rate(name: str, verb: str) -> Outcome:
    return rate(name, "B/s", f"[More|Less] data is {verb} per second.", _BLIND, (1e4, 1e12))


_OUTCOMES = (
    _ratio(
        "compression-ratio",
        "The data compresses [better|worse].",
        "Pages of one repeated word count as data and take no room. `memory-ratio` includes the allocator's losses.",
        headline=True,
    ),
    _ratio(
        "memory-ratio",
        "The same data takes [less|more] memory, including everything that the device needs.",
        "A fresh device: it does not show fragmentation by long use.",
    ),
    _rate("write-rate", "compressed"),
    _rate("read-rate", "decompressed"),
)


def _read(reply: LoadReply) -> tuple[Measurement | None, ...]:
    data, compressed = reply.positive("data_bytes"), reply.number("compressed_bytes")
    if not compressed:
        raise BadRun(
            "nothing was compressed: each page of the data is one repeated word",
            hint=f"use other data, such as -p data={GENERATED}",
        )
    for moved, did in (("stored_bytes", "stored"), ("written_bytes", "wrote"), ("read_bytes", "read")):
        if reply.number(moved) != data:
            raise BadRun(
                f"the data has {data} bytes, but the agent {did} {reply.number(moved)} bytes",
                hint="run the benchmark again",
            )
    memory = reply.positive("memory_bytes")
    return (
        Measurement(outcome="compression-ratio", value=data / compressed, original=f"{data} to {compressed} B"),
        Measurement(outcome="memory-ratio", value=data / memory, original=f"{data} in {memory} B"),
        per_second(reply, "write-rate", "written_bytes", "write_ns"),
        per_second(reply, "read-rate", "read_bytes", "read_ns"),
    )


#: Prints the algorithms that existing devices offer; without a device, a run must first create one.
_ASKED = Invocation(
    argv=("grep", "-rhs", "--include=comp_algorithm", "", "/sys/devices/virtual/block"), limit_s=VERSION_LIMIT_S
)


def _unknown(algorithm: str, raw: RawOutput) -> str | None:
    known = dict.fromkeys(raw.stdout.decode("utf-8", "replace").replace("[", "").replace("]", "").split())
    if not known or algorithm in known:
        return None
    return f"this kernel's zram does not support {algorithm}, only {', '.join(known)}"


class ZramBenchmark(LoadBenchmark, frozen=True, kw_only=True):
    """A load that runs as root; the parameter `data` is `generated` or the path of a file."""

    root_reason: ClassVar[str | None] = "it creates, fills and removes a zram device"

    @property
    def probe(self) -> Probe | None:
        """A test of whether the kernel has the benchmark's algorithm; None if a parameter names the algorithm."""
        algorithm = self.fixed.get("algorithm")
        if algorithm is None:
            return None
        return Probe(
            invocation=lambda _: _ASKED,
            why_not=lambda raw: _unknown(algorithm, raw),
            next=f"boot a kernel with CONFIG_ZRAM_BACKEND_{algorithm.split('-')[0].upper()}, or Linux before 6.12 with "
            f"CONFIG_CRYPTO_{algorithm.split('-')[0].upper()}",
        )

    def invocation(self, parameters: Parameters, facts: FactBook) -> Invocation:
        """Return how to run the load once.

        Raise BadInput for an unknown parameter and for an invalid `bytes`, `seed` or `data`; the agent checks the rest.
        """
        invocation = super().invocation(parameters, facts)
        complete = self._complete(parameters)
        for name in ("bytes", "seed"):
            if isinstance(complete[name], bool) or not isinstance(complete[name], int) or complete[name] < 0:
                raise BadInput(
                    f"parameter {name}: expected a whole number of 0 or more, got {complete[name]!r}",
                    hint=f"for example -p {name}=1",
                )
        data = complete["data"]
        if not isinstance(data, str) or not (data == GENERATED or data.startswith("/")):
            raise BadInput(
                f"parameter data: expected {GENERATED!r} or the full path of a file, got {data!r}",
                hint=f"for example -p data={GENERATED}",
            )
        load = AgentLoad(
            name=self.load, parameters=self._for_agent(complete), as_root=True, data=None if data == GENERATED else data
        )
        return msgspec.structs.replace(invocation, load=load, expected_s=_EXPECTED_S)

    def _for_agent(self, complete: Parameters) -> Parameters:
        return {**complete, "data": complete["data"] if complete["data"] == GENERATED else "given"}


def _benchmark(name: str, what: str, fixed: Parameters, more: Parameters) -> ZramBenchmark:
    return ZramBenchmark(
        name=name,
        what=what,
        load="zram",
        outcomes=_OUTCOMES,
        reader=_read,
        fixed=fixed,
        parameters={**more, "data": GENERATED, "bytes": 256 << 20, "seed": 1},
    )


BENCHMARKS = (
    _benchmark(
        "zram-compression",
        "Ratio and speed at which zram compresses memory with one of the kernel's algorithms.",
        {},
        {"algorithm": "lzo-rle"},
    ),
    *(
        _benchmark(
            f"zram-{algorithm}",
            f"Ratio and speed at which zram compresses memory with {algorithm}.",
            {"algorithm": algorithm},
            {},
        )
        for algorithm in _ALGORITHMS
    ),
)
