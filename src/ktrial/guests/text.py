# SPDX-License-Identifier: Apache-2.0
"""The result of a guest, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktrial.bench.guest_tools import EXACT_CLOCK, GuestBootTime, GuestRun, GuestStart, GuestTool
from ktrial.guests.agreement import BootResult
from ktrial.kit.json_bytes import wire_bytes
from ktrial.kit.tables import labelled, paragraph

_LAST_LINES = 12
_LABEL_COLUMNS = 14


def console_tail(run: GuestRun, lines: int = _LAST_LINES) -> list[str]:
    text = run.console[-(1 << 16) :].decode(errors="replace")
    return [line.rstrip("\r") for line in text.splitlines() if line.strip()][-lines:]


def failure_text(run: GuestRun) -> str:
    tail = console_tail(run)
    shown = "".join(f"\n  {line}" for line in tail)
    return f"{run.failure}; {'last lines of its console:' + shown if tail else 'its console is empty'}"


def guest_json(booted: BootResult, kernel: str, program: GuestTool | None, tools: Sequence[str]) -> dict[str, Any]:
    run, odd = booted.run, booted.odd
    exact = {"runs": 2 if odd is None else 3, "odd": odd, "sha256": booted.twin_sha256, "clock": EXACT_CLOCK}
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
        "exact": None if booted.twin_sha256 is None else exact,
    }


def guest_text(run: GuestRun, kernel: str, *, width: int) -> str:
    begun = run.begun
    assert begun is not None

    lines = {
        "kernel": f"{begun.release}, from {kernel}",
        "version": begun.version,
        "machine": f"{begun.architecture}, {_machine_text(begun)}",
        "run by": f"{run.emulator}, {run.shape.mode}",
        "command line": begun.command_line,
        "first process": f"after {begun.uptime_s:.2f} s of guest time",
        "whole boot": f"{run.wall_s:.1f} s of real time, to the end of the guest",
    }
    return _lines(lines, width)


def _lines(lines: Mapping[str, str], width: int) -> str:
    return "".join(f"{labelled(*line, width=width, label_columns=_LABEL_COLUMNS)}\n" for line in lines.items())


def _machine_text(begun: GuestStart) -> str:
    return f"{begun.cpus} CPU{'s'[: begun.cpus != 1]}, {begun.memory_bytes >> 20} MiB of usable memory"


def kept_text(name: str, begun: GuestStart, mode: str, *, width: int) -> str:
    """Return a text that describes a kept guest, and how to use it."""
    guest = _lines({name: f"Linux {begun.release}, {mode}, {_machine_text(begun)}"}, width)
    host = f"{'exact' if mode == 'exact' else 'guest'}:{name}"
    use = f"Use it from another terminal: `ktrial --host {host} COMMAND …`. Ctrl-C here ends it."
    return f"{guest}{paragraph(use, width=width)}\n"


def boot_time_text(found: GuestBootTime, top: int, *, width: int) -> str:
    times, count = found.first_process_s, len(found.first_process_s)
    spread = f", the median of {count} boots ({min(times):.3f} to {max(times):.3f})" if count > 1 else ""
    lines = {
        "kernel": f"{found.release}, from {found.kernel}, {found.mode}",
        "first process": f"after {found.median_s:.3f} s of guest time{spread}",
        "whole boot": f"{found.wall_s:.1f} s of real time",
    }
    if found.told_kernel_s is not None:
        whole_s = found.told_first_process_s
        lines["kernel's part"] = f"{found.told_kernel_s:.3f} s of {whole_s:.3f} s, according to its log"
    text = _lines(lines, width)
    if not found.calls[:top]:
        return text + "\nThe kernel's log lists no steps.\n"
    longest = max(len(f"{call.us / 1e3:.1f}") for call in found.calls[:top])
    rows = "".join(f"  {call.us / 1e3:>{longest}.1f} ms  {call.name}\n" for call in found.calls[:top])
    return f"{text}\nSlowest of {len(found.calls)} steps:\n{rows}"
