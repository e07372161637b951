# SPDX-License-Identifier: Apache-2.0
"""SynthMark, a synthesizer's audio thread: how many voices a CPU plays, at what latency, and how late it wakes up."""

from __future__ import annotations

from decimal import Decimal

from ktrial.bench.adapters._tool import Program, ToolBenchmark, agree, one_measurement, whole
from ktrial.bench.adapters.synthmark.output import SynthmarkRun, read_synthmark
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import latency, outcome
from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.formats.tool_output import Quantity, nearest_rank, quantity

#: A burst is 96 frames at 48 kHz; latency comes in steps of it.
_BURST_S = 0.002
_BIN_S = 1e-4
#: LatencyMark 1.25 tries several buffer sizes, and repeats the one that it chooses.
_LEAST_RUNS = 2
_PROGRAM = Program(needs=("synthmark",))
_ONE_THREAD = "A single audio thread on a virtual sound device. "

_VOICES = outcome(
    "voices",
    "score",
    "score",
    "One CPU plays [more|fewer] voices of a synthesizer at the target load.",
    _ONE_THREAD + "Reflects the speed of one CPU and how well its governor follows; unsteady below 30 s. Other load "
    "targets are other measures.",
    (1.0, 1e6),
    direction="higher",
    headline=True,
)
_UNDERRUNS = outcome(
    "underruns",
    "count",
    "count",
    "The audio thread misses [fewer|more] deadlines.",
    _ONE_THREAD + "Counts of rare events vary widely from run to run.",
    (0.0, 1e6),
    resolution=1.0,
)
_LATENCY = outcome(
    "latency",
    "s",
    "time",
    "Audio needs a [smaller|larger] buffer to play without glitches.",
    _ONE_THREAD + "Comes in steps of 2 ms and depends on the single worst moment of a run: one step is no evidence. "
    "It cannot fall below one burst.",
    (_BURST_S, 10.0),
    resolution=_BURST_S,
    headline=True,
)
_DELAY_MEAN = outcome(
    "wakeup-mean",
    "s",
    "time",
    "The audio thread wakes up [sooner|later] on average.",
    _ONE_THREAD + "A mean hides the rare late wake-ups that one hears.",
    (0.0, 10.0),
    resolution=1e-8,
    headline=True,
)
_DELAY_P99 = latency(
    "wakeup-p99",
    "The latest 1 % of the audio thread's wake-ups come [sooner|later].",
    _ONE_THREAD + "The lower edge of a bin of 0.1 ms, so good machines show 0.",
    high=10.0,
    resolution=_BIN_S,
)
#: Parameter -> option, and its name in the head of the output.
_SETTINGS = {
    "voices": ("-n", "num.voices"),
    "voices_high": ("-N", "num.voices.high"),
    "target_percent": ("-p", "target.cpu.percent"),
}


def _command(letter: str, parameters: Parameters) -> Invocation:
    seconds = whole(parameters, "seconds", 1, 3600)
    argv = ["synthmark", f"-t{letter}", f"-s{seconds}"]
    for name, (option, _) in _SETTINGS.items():
        if parameters.get(name):
            argv.append(f"{option}{whole(parameters, name, 1, 100_000)}")
    searched = _LEAST_RUNS if letter == "l" else 1
    return Invocation(argv=tuple(argv), limit_s=20.0 * seconds + 60, expected_s=float(searched * seconds))


def _result(run: SynthmarkRun, key: str, unit: str) -> Quantity:
    value = run.results.get(key)
    if value is None:
        raise UnreadableOutput("stdout", None, "", f"complete output of SynthMark: {key} is missing")
    return quantity(value, unit, "stdout", None, key)


def _scheduler(run: SynthmarkRun) -> tuple[str, ...]:
    scheduler = run.results.get("scheduler")
    if scheduler in {None, "SCHED_FIFO"}:
        return ()
    return (f"the audio thread ran as {scheduler}, not as SCHED_FIFO like real audio threads",)


def _opened(raw: RawOutput, test: str, parameters: Parameters) -> SynthmarkRun:
    run = read_synthmark(raw.stdout)
    agree({"test": test}, {"test": run.test})
    for name, (_, key) in _SETTINGS.items():
        if parameters.get(name) and key in run.settings:
            agree({key: str(parameters[name])}, run.settings)
    return run


def _voicemark(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = _opened(raw, "VoiceMark", parameters)
    voices = _result(run, f"VoiceMark_{whole(parameters, 'target_percent', 1, 100)}", "score")
    measurements = one_measurement("voices", voices) + one_measurement("underruns", _result(run, "Underruns", "count"))
    return ParsedRun(measurements=measurements, tool_version=run.version, notes=_scheduler(run))


def _latencymark(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = _opened(raw, "LatencyMark", parameters)
    latency = _result(run, "audio.latency.msec", "ms")
    notes = _scheduler(run)
    if latency.value <= _BURST_S:
        notes += ("this is the smallest latency that SynthMark can find",)
    return ParsedRun(measurements=one_measurement("latency", latency), tool_version=run.version, notes=notes)


def _jittermark(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = _opened(raw, "JitterMark", parameters)
    edges = {int(Decimal(edge) * 1_000_000): count for edge, count in run.wakeups.items()}
    p99 = nearest_rank(edges, 0.99)
    if p99 is None:
        raise UnreadableOutput("stdout", None, "", "output of JitterMark: its table of wake-ups has no counts")
    measurements = one_measurement("wakeup-mean", _result(run, "average.wakeup.delay.micros", "us"))
    measurements += one_measurement("wakeup-p99", quantity(str(p99), "ns", "stdout", None, "a latency"))
    measurements += one_measurement("underruns", _result(run, "underrun.count", "count"))
    details = {"wakeup_bins_ns": {str(edge): count for edge, count in sorted(edges.items())}}
    return ParsedRun(measurements=measurements, tool_version=run.version, details=details, notes=_scheduler(run))


BENCHMARKS = (
    ToolBenchmark(
        name="synthmark-voicemark",
        what="Voices of a synthesizer that one CPU plays at a given load.",
        program=_PROGRAM,
        outcomes=(_VOICES, _UNDERRUNS),
        parameters={"seconds": 30, "target_percent": 50},
        command=lambda parameters: _command("v", parameters),
        reader=_voicemark,
        standalone=True,
    ),
    ToolBenchmark(
        name="synthmark-latencymark",
        what="Smallest audio buffer, as time, that plays a changing number of voices without a glitch.",
        program=_PROGRAM,
        outcomes=(_LATENCY,),
        parameters={"seconds": 10, "voices": 10, "voices_high": 40},
        command=lambda parameters: _command("l", parameters),
        reader=_latencymark,
        standalone=True,
    ),
    ToolBenchmark(
        name="synthmark-jittermark",
        what="How late a periodic audio thread wakes up.",
        program=_PROGRAM,
        outcomes=(_DELAY_MEAN, _DELAY_P99, _UNDERRUNS),
        parameters={"seconds": 10},
        command=lambda parameters: _command("j", parameters),
        reader=_jittermark,
        standalone=True,
    ),
)
