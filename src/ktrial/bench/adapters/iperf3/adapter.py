# SPDX-License-Identifier: Apache-2.0
"""iperf3: a TCP stream between two network namespaces with a link of configurable quality."""

from __future__ import annotations

import re

import msgspec

from ktrial.bench.adapters._servers import APART
from ktrial.bench.adapters._tool import (
    Program,
    RemoteLoad,
    ToolBenchmark,
    agree,
    flag,
    matching,
    one_measurement,
    whole,
)
from ktrial.bench.adapters.iperf3.output import read_iperf3
from ktrial.bench.benchmark import (
    ADDRESS,
    GENERATOR_PARAMETER,
    PORT,
    SERVER_ADDRESS,
    GeneratorPart,
    Invocation,
    Network,
    Parameters,
    ParsedRun,
    RawOutput,
    Step,
)
from ktrial.bench.outcomes import outcome, rate
from ktrial.kit.formats.tool_output import Quantity
from ktrial.kit.outcome import Outcome

_PORT = 5201
_SHARED = "Both ends are on this machine and share its CPUs; no network card, driver or interrupt takes part. "
_FIRST_WITH_THREADS = (3, 16)
_THREADS = "iperf3 before 3.16 has one thread for all streams. "
#: Parameters that name a part of the kernel, with an example of each.
_LINK_NAMES = {"congestion": "bbr", "qdisc": "fq"}
_LINK_RANGES = {
    "delay_us": (0, 10_000_000),
    "loss_ppm": (0, 500_000),
    "rate_bytes_per_s": (0, 125_000_000_000),
    "limit_packets": (1, 10_000_000),
}
_PROGRAM = Program(
    needs=("iperf3",),
    packages={"apt": "iperf3", "dnf": "iperf3", "pacman": "iperf3", "zypper": "iperf"},
    version=("iperf3", "--version"),
    version_pattern=r"iperf (\S+)",
)


def _outcomes(where: str) -> tuple[Outcome, ...]:
    blind = where + _THREADS
    return (
        rate(
            "goodput",
            "B/s",
            "[More|Fewer] bytes arrive per second.",
            blind + "Includes the time that the sender needs to flush its last bytes.",
            (1.0, 1e12),
            headline=True,
        ),
        outcome(
            "retransmits",
            "count",
            "count",
            "[Fewer|More] segments have to be sent again.",
            blind + "Grows with the bytes sent, and includes segments that were sent again although they had arrived.",
            (0, 1e12),
            resolution=1,
        ),
    )


def _client(parameters: Parameters, address: str, port: str) -> Invocation:
    seconds, omit = whole(parameters, "seconds", 1, 86_400), whole(parameters, "omit_seconds", 0, 600)
    argv = ("iperf3", "-c", address, "-p", port, "-t", str(seconds), "-O", str(omit))
    return Invocation(
        argv=(*argv, "-P", str(whole(parameters, "streams", 1, 128)), "-J"),
        limit_s=2.0 * (seconds + omit) + 60,
        expected_s=seconds + omit,
    )


def _command(parameters: Parameters) -> Invocation:
    named = {name: example for name, example in _LINK_NAMES.items() if parameters[name] is not None}
    link = {
        **{name: matching(parameters, name, "[a-z0-9_]{1,15}", example) for name, example in named.items()},
        **{name: whole(parameters, name, *limits) for name, limits in _LINK_RANGES.items()},
    }
    network = Network(link=link, server=("iperf3", "-s", "-1", "-p", str(_PORT)), port=_PORT)
    return msgspec.structs.replace(_client(parameters, SERVER_ADDRESS, str(_PORT)), network=network)


def _remote_command(parameters: Parameters) -> Invocation:
    server = ("iperf3", "-s", "-B", ADDRESS, "-p", PORT)
    # A test of one byte succeeds once the server listens.
    asked = ("iperf3", "-c", ADDRESS, "-p", PORT, "-n", "1")
    invocation = _client(parameters, ADDRESS, PORT)
    argv = invocation.argv
    if flag(parameters, "reverse"):
        argv += ("-R",)
    if parameters["congestion"] is not None:
        argv += ("-C", matching(parameters, "congestion", "[a-z0-9_]{1,15}", "bbr"))
    return msgspec.structs.replace(
        invocation,
        argv=argv,
        steps=(Step(argv=server, ready=asked),),
        generator=GeneratorPart(reach=asked, threads=_threads(parameters)),
    )


def _threads(parameters: Parameters) -> int:
    """Return how many threads of the generator's iperf3 send."""
    found = re.search(r"iperf (\d+)\.(\d+)", parameters.get(GENERATOR_PARAMETER, ""))
    has_many = found is not None and (int(found[1]), int(found[2])) >= _FIRST_WITH_THREADS
    return whole(parameters, "streams") if has_many else 1


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_iperf3(raw.stdout)
    agree(
        {name: parameters[name] for name in ("seconds", "omit_seconds", "streams")},
        {"seconds": run.duration_s, "omit_seconds": run.omit_s, "streams": run.streams},
    )
    agree({"reverse": parameters.get("reverse", False)}, {"reverse": run.is_reverse})
    if parameters["congestion"]:
        agree({"congestion": parameters["congestion"]}, {"congestion": run.sender_congestion})
    again = None if run.retransmits is None else Quantity(run.retransmits, str(run.retransmits))
    return ParsedRun(
        measurements=one_measurement("goodput", run.goodput) + one_measurement("retransmits", again),
        tool_version=run.version,
        details={"sender_congestion": run.sender_congestion, "receiver_congestion": run.receiver_congestion},
        notes=() if again is not None else ("this kernel does not report retransmits to iperf3",),
    )


BENCHMARK = ToolBenchmark(
    name="iperf3",
    what="Bytes per second that iperf3 sends over TCP to the other end of a link with delay, loss and a limited rate.",
    program=_PROGRAM,
    outcomes=_outcomes(_SHARED),
    parameters={
        "seconds": 10,
        "omit_seconds": 1,
        "streams": 1,
        "congestion": None,
        "qdisc": None,
        "delay_us": 0,
        "loss_ppm": 0,
        "rate_bytes_per_s": 0,
        "limit_packets": 1000,
    },
    command=_command,
    reader=_read,
    remote=RemoteLoad(
        what="Bytes per second that iperf3 sends over TCP from another machine to this one, or with `reverse` back.",
        server=_PROGRAM,
        generator=msgspec.structs.replace(_PROGRAM, version_pattern=r"(iperf \S+)"),
        outcomes=_outcomes(f"{APART} "),
        command=_remote_command,
        without=("qdisc", *_LINK_RANGES),
        parameters={"reverse": False},
    ),
)
