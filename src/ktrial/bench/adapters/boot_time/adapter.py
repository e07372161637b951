# SPDX-License-Identifier: Apache-2.0
"""systemd-analyze: how long the boot of the running system took, part by part."""

from __future__ import annotations

from ktrial.bench.adapters._tool import VERSION_LIMIT_S, Program, ToolBenchmark, everywhere, one_measurement, refusal
from ktrial.bench.adapters.boot_time.output import BootTimes, read_boot_times
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, Probe, RawOutput
from ktrial.bench.outcomes import outcome
from ktrial.kit.outcome import Outcome

_BLIND = (
    "One value per boot: runs within a boot repeat it, so the number of boots is the number of samples. A boot with an "
    "update, a file system check or a wait for a password counts like any other. "
)
_PARTS = {
    "firmware": ("in the firmware", "Known only from EFI firmware, through the boot loader. "),
    "loader": ("in the boot loader", "Includes its menu's timeout; known only from EFI loaders that report it. "),
    "kernel": ("in the kernel before the first program", "Drivers that probe in parallel still work after it. "),
    "initrd": (
        "in the initial RAM disk",
        "Known only if systemd runs in it; otherwise it is part of the kernel's time. ",
    ),
    "userspace": ("from systemd's start to the end of its start jobs", "Units that wait for the network weigh most. "),
}
_TARGETS = {"graphical.target": "graphical-target", "multi-user.target": "multi-user-target"}
#: systemd rounds each part to a millisecond.
_RESOLUTION_S = 0.001
_LIMIT_S = 60.0
_PROGRAM = Program(
    needs=("systemd-analyze",),
    packages=everywhere("systemd"),
    version=("systemd-analyze", "--version"),
    version_pattern=r"systemd \d+ \((\S+)\)",
)


def _outcome(name: str, spent: str, blind: str, *, headline: bool = False) -> Outcome:
    return outcome(
        name,
        "s",
        "time",
        f"The boot spent [less|more] time {spent}.",
        _BLIND + blind.strip(),
        (0.0, 86_400.0),
        resolution=_RESOLUTION_S,
        headline=headline,
    )


_OUTCOMES = (
    _outcome("total", "from power-on to the end of the start jobs", "The sum of the known parts.", headline=True),
    *(_outcome(name, spent, blind) for name, (spent, blind) in _PARTS.items()),
    *(
        _outcome(name, f"in userspace until {target} was reached", "Measured for the default target only.")
        for target, name in _TARGETS.items()
    ),
)


def _command(_: Parameters) -> Invocation:
    return Invocation(argv=("systemd-analyze", "time"), limit_s=_LIMIT_S, expected_s=1.0, once_per_boot=True)


def _read(raw: RawOutput, _: Parameters) -> ParsedRun:
    boot = read_boot_times(raw.stdout)
    found = one_measurement("total", boot.total)
    for name in _PARTS:
        found += one_measurement(name, boot.terms.get(name))
    if boot.target in _TARGETS:
        found += one_measurement(_TARGETS[boot.target], boot.reached)
    return ParsedRun(measurements=found, details={"target": boot.target}, notes=_doubts(boot))


def _doubts(boot: BootTimes) -> tuple[str, ...]:
    notes = [
        f"the part {name} has no outcome: {took.original}" for name, took in boot.terms.items() if name not in _PARTS
    ]
    parts_s = sum(took.value for took in boot.terms.values())
    if boot.total is None:
        notes.append("there is no total: a container has no kernel and no firmware of its own")
    elif abs(parts_s - boot.total.value) > _RESOLUTION_S * (len(boot.terms) + 1):
        notes.append(
            f"the parts add up to {parts_s:.3f} s, but systemd-analyze reports a total of {boot.total.original}"
        )
    if boot.target is None:
        notes.append("the default target was not reached")
    elif boot.target not in _TARGETS:
        notes.append(f"the default target {boot.target} has no outcome")
    return tuple(notes)


BENCHMARK = ToolBenchmark(
    name="boot-time",
    what="How long this boot took: firmware, loader, kernel, initrd, userspace. One value per boot.",
    program=_PROGRAM,
    outcomes=_OUTCOMES,
    parameters={},
    command=_command,
    reader=_read,
    probe=Probe(
        invocation=lambda _: Invocation(argv=("systemd-analyze", "time"), limit_s=VERSION_LIMIT_S),
        why_not=refusal,
        next="run the benchmark on a machine booted by systemd, once `systemctl list-jobs` is empty",
    ),
)
