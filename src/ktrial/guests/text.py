# SPDX-License-Identifier: Apache-2.0
"""What came of a guest, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ktrial.bench.guest_tools import EXACT_CLOCK, GuestBootTime, GuestRun, GuestStart, GuestTool
from ktrial.kit.json_bytes import wire_bytes
from ktrial.kit.tables import labelled, paragraph

_LAST_LINES = 12
_LABEL_COLUMNS = 14


def console_tail(run: GuestRun, lines: int = _LAST_LINES) -> list[str]:
    text = run.console[-(1 << 16) :].decode(errors="replace")
    return [line.rstrip("\r") for line in text.splitlines() if line.strip()][-lines:]


def failure_text(run: GuestRun) -> str:
    """Return why the guest did not come to its end, and what its console showed last."""
    tail = console_tail(run)
    shown = "".join(f"\n  {line}" for line in tail)
    return f"{run.failure}; its console showed {'last:' + shown if tail else 'nothing'}"


class GuestFacts(Protocol):
    """A boot that is told about: the run, why not with KVM, what two exact runs agree in."""

    @property
    def run(self) -> GuestRun: ...

    @property
    def no_kvm(self) -> str | None:
        """Why it was not run with KVM, where that was wanted."""

    @property
    def twin_sha256(self) -> str | None:
        """The hash of all that two exact runs gave."""

    @property
    def odd(self) -> str | None:
        """How a third exact run differed from them."""


def guest_json(booted: GuestFacts, kernel: str, program: GuestTool | None, tools: Sequence[str]) -> dict[str, Any]:
    """`ktrial.guest/1`."""
    run, twin = booted.run, booted.twin_sha256
    return {
        "schema": "ktrial.guest/1",
        "kernel": kernel,
        "mode": run.shape.mode,
        "no_kvm": booted.no_kvm,
        "emulator": run.emulator,
        "memory_bytes": run.shape.memory_bytes,
        "cpus": run.shape.cpus,
        "append": run.shape.append,
        "guest": run.begun,
        "program": None if program is None else program.argv,
        "tools": tools,
        "ended": run.ended,
        "exit_status": run.exit_status,
        "stdout": wire_bytes(run.stdout),
        "stderr": wire_bytes(run.stderr),
        "failure": run.failure,
        "console": console_tail(run),
        "wall_s": round(run.wall_s, 3),
        "exact": None if twin is None else _exact(twin, booted.odd),
    }


def _exact(sha256: str, odd: str | None) -> dict[str, Any]:
    return {"runs": 2 if odd is None else 3, "odd": odd, "sha256": sha256, "clock": EXACT_CLOCK}


def guest_text(run: GuestRun, kernel: str, *, width: int) -> str:
    """Return what a guest without a program told of itself."""
    begun = run.begun
    assert begun is not None

    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    return (
        line("kernel", f"{begun.release}, from {kernel}")
        + line("version", begun.version)
        + line(
            "machine",
            f"{begun.architecture}, {begun.cpus} CPU{'s'[: begun.cpus != 1]}, "
            f"{begun.memory_bytes >> 20} MiB of memory for it",
        )
        + line("run by", f"{run.emulator}, {run.shape.mode}")
        + line("command line", begun.command_line)
        + line("first process", f"after {begun.uptime_s:.2f} s of the guest's own time")
        + line("whole boot", f"{run.wall_s:.1f} s here, to the end of the guest")
    )


def kept_text(name: str, begun: GuestStart, mode: str, *, width: int) -> str:
    """Return a guest that is kept, and how to reach it."""
    machine = f"{begun.cpus} CPU{'s'[: begun.cpus != 1]}, {begun.memory_bytes >> 20} MiB of memory for it"
    told = labelled(name, f"Linux {begun.release}, {mode}, {machine}", width=width, label_columns=_LABEL_COLUMNS)
    host = f"{'exact' if mode == 'exact' else 'guest'}:{name}"
    use = f"`ktrial --host {host} VERB …` in another terminal does it there. Ctrl-C here ends it."
    return f"{told}\n{paragraph(use, width=width)}\n"


def boot_time_text(found: GuestBootTime, top: int, *, width: int) -> str:
    """Return how long a kernel takes to boot, and its slowest steps."""

    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    times, count = found.first_process_s, len(found.first_process_s)
    spread = f", the median of {count} boots ({min(times):.3f} to {max(times):.3f})" if count > 1 else ""
    text = line("kernel", f"{found.release}, from {found.kernel}, {found.mode}")
    text += line("first process", f"after {found.median_s:.3f} s of the guest's own time{spread}")
    text += line("whole boot", f"{found.wall_s:.1f} s here")
    if found.told_kernel_s is not None:
        text += line("kernel's part", f"{found.told_kernel_s:.3f} s of {found.told_first_process_s:.3f} s, as it tells")
    if not found.calls[:top]:
        return text + "\nIts kernel tells no steps of its start.\n"
    longest = max(len(f"{call.us / 1e3:.1f}") for call in found.calls[:top])
    rows = "".join(f"  {call.us / 1e3:>{longest}.1f} ms  {call.name}\n" for call in found.calls[:top])
    return f"{text}\nSlowest of {len(found.calls)} steps:\n{rows}"
