# SPDX-License-Identifier: Apache-2.0
"""stress-ng: bogo operations per second of one kernel stressor."""

from __future__ import annotations

from ktrial.bench.adapters._tool import (
    VERSION_LIMIT_S,
    Program,
    ToolBenchmark,
    agree,
    collected,
    everywhere,
    one_measurement,
    whole,
)
from ktrial.bench.adapters.stress_ng.output import Stressor, read_stress_ng
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, Probe, RawOutput, check_exit
from ktrial.bench.outcomes import rate
from ktrial.kit.errors import BadRun

_FILE = "out.yaml"
#: A run that ended before this share of its time was stopped, or lost its workers.
_LEAST_OF_TIME = 0.95
#: With fewer operations than this, one more or less changes the rate by more than 1 %.
_FEW_OPERATIONS = 100
_STRESSORS = {
    "af-alg": ("the kernel's cryptography through AF_ALG sockets", "cryptography"),
    "context": ("switches between user contexts", "context switching in user space"),
    "fault": ("page faults on files that come and go", "page faulting"),
    "fork": ("children that are created and end at once", "creating and ending processes"),
    "mmap": ("mappings that are created, touched, protected and removed", "mapping memory"),
    "pipe": ("a pipe written as fast as its reader takes it", "writing through pipes"),
    "yield": ("calls of sched_yield", "yielding"),
}
_PROGRAM = Program(
    needs=("stress-ng",),
    packages=everywhere("stress-ng"),
    version=("stress-ng", "--version"),
    version_pattern=r"stress-ng, version (\S+)",
)
_BLIND = (
    "Bogo operations are comparable only within one version of stress-ng, because what an operation does changes "
    "between releases. Its manual says that they are not an accurate measure of performance. "
)


def _read(stressor: str, raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_stress_ng(collected(raw, _FILE), _FILE)
    found = [entry for entry in run.stressors if entry.name == stressor]
    if len(found) != 1 or len(run.stressors) != 1:
        names = ", ".join(entry.name for entry in run.stressors)
        raise BadRun(
            f"asked stress-ng for {stressor} alone, but {_FILE} reports {names}",
            hint="use another version of stress-ng",
        )
    entry = found[0]
    if entry.bogo_ops == 0:
        raise BadRun(
            f"stress-ng exited with status 0 but did no {stressor} operation",
            hint="choose a benchmark whose stressor this kernel supports",
        )
    instances = whole(parameters, "instances", 0, 4096)
    if instances and entry.instances:
        agree({"instances": instances}, {"instances": len(entry.instances)})
    _check_workers(entry, whole(parameters, "seconds", 1, 86_400))
    few = entry.bogo_ops < _FEW_OPERATIONS
    notes = (f"only {entry.bogo_ops} operations: the rate moves in steps of 1/{entry.bogo_ops}",) if few else ()
    details = {
        "bogo_ops": entry.bogo_ops,
        "wall_s": entry.wall.value,
        "user_s": entry.user.value,
        "system_s": entry.system.value,
        "extra": dict(entry.extra),
    }
    measurements = one_measurement("rate", entry.rate) + one_measurement("cpu-rate", entry.cpu_rate)
    return ParsedRun(measurements=measurements, tool_version=run.version, details=details, notes=notes)


def _check_workers(entry: Stressor, seconds: int) -> None:
    """Raise BadRun if instances were killed or ran too briefly, which stress-ng counts as success."""
    lost = sum(instance.value == 0 for instance in entry.instances)
    if lost:
        raise BadRun(
            f"{lost} of {len(entry.instances)} instances of {entry.name} reported no run time",
            hint="check the kernel log for killed processes: journalctl -k",
        )
    if entry.wall.value < _LEAST_OF_TIME * seconds:
        raise BadRun(
            f"stress-ng worked for {entry.wall.original} of {seconds} s",
            hint="check the kernel log for killed processes: journalctl -k",
        )


def _does_nothing(stressor: str, raw: RawOutput) -> str | None:
    """Return why a stressor cannot work here, or None; stress-ng reports success even if it did nothing."""
    try:
        check_exit(raw)
        run = read_stress_ng(collected(raw, _FILE), _FILE)
    except BadRun as error:
        return error.message
    done = sum(entry.bogo_ops for entry in run.stressors)
    return None if done else f"stress-ng's {stressor} does nothing on this kernel: not one operation in a second"


#: Stressors that have nothing to do on some kernels, and what would change that.
_PROBED = {"af-alg": "boot a kernel with CONFIG_CRYPTO_USER_API_HASH (module algif_hash)"}


def _probe(stressor: str) -> Probe | None:
    if stressor not in _PROBED:
        return None
    argv = ("stress-ng", f"--{stressor}", "1", f"--{stressor}-ops", "1", "--timeout", "1", "--metrics", "--yaml", _FILE)
    asked = Invocation(argv=argv, limit_s=VERSION_LIMIT_S, files=(_FILE,))
    return Probe(invocation=lambda _: asked, why_not=lambda raw: _does_nothing(stressor, raw), next=_PROBED[stressor])


def _benchmark(stressor: str, does: str, doing: str) -> ToolBenchmark:
    wall_rate = rate(
        "rate",
        "1/s",
        f"[More|Fewer] operations in the same wall time: {doing} gets [faster|slower] on the whole machine.",
        _BLIND + "Everything else that runs reduces a rate of wall time.",
        (1e-3, 1e12),
        headline=True,
    )
    cpu_rate = rate(
        "cpu-rate",
        "1/s",
        f"[More|Fewer] operations for the same CPU time: {doing} costs [less|more].",
        _BLIND + "CPU time excludes waiting, and is itself sampled on some kernels.",
        (1e-3, 1e12),
    )

    def command(parameters: Parameters) -> Invocation:
        seconds = whole(parameters, "seconds", 1, 86_400)
        instances = whole(parameters, "instances", 0, 4096)
        argv = ("stress-ng", f"--{stressor}", str(instances), "--timeout", str(seconds), "--no-rand-seed")
        return Invocation(
            argv=(*argv, "--metrics", "--yaml", _FILE), limit_s=2 * seconds + 60.0, expected_s=seconds, files=(_FILE,)
        )

    return ToolBenchmark(
        name=f"stress-ng-{stressor}",
        what=f"Operations per second of stress-ng's {stressor} stressor: {does}.",
        program=_PROGRAM,
        outcomes=(wall_rate, cpu_rate),
        parameters={"instances": 0, "seconds": 10},
        command=command,
        reader=lambda raw, parameters: _read(stressor, raw, parameters),
        probe=_probe(stressor),
        standalone=True,
    )


BENCHMARKS = tuple(_benchmark(name, does, doing) for name, (does, doing) in _STRESSORS.items())
