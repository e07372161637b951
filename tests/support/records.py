# SPDX-License-Identifier: Apache-2.0
"""Run records of trials in the form of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.bench.record import RunRecord

_UNITS = {"rate": "1/s", "faults": "count"}
BOOT = "11111111-2222-3333-4444-555555555555"


def session_document(name: str = "20261122T030000-speeds-abcdef", **fields: Any) -> dict[str, Any]:
    """Return the document of a session with sensible values for everything that a test does not set."""
    return {
        "session": name,
        "suite": "speeds",
        "label": None,
        "seed": 7,
        "rounds": 1,
        "kernel_release": "6.18.0",
        "boot_id": BOOT,
        "machine": {},
        "ktrial_version": "0",
        "agent_version": "0",
    } | fields


def run_record(
    run: int, arm: str, block: int | None, values: Mapping[str, float], *, tool: str = "tool", **fields: Any
) -> RunRecord:
    """Return a run of an arm. `values` are outcomes: times if their names end in `_s`, otherwise rates."""
    measured = [
        {
            "outcome": name,
            "value": value,
            "unit": _UNITS.get(name, "s"),
            "direction": "higher" if name == "rate" else "lower",
            "original": repr(value),
        }
        for name, value in values.items()
    ]
    where = {"trial": "speeds-abcdef", "protocol_sha256": "0" * 64, "block": block, "arm": arm}
    document = {
        "schema": "ktrial.run/1",
        "session": session_document(),
        "run": run,
        "benchmark": tool,
        "tool": tool,
        "tool_version": None,
        "built": None,
        "container": None,
        "argv": [f"/usr/bin/{tool}"],
        "steps": [],
        "agent_load": None,
        "environment": {},
        "directory": "/",
        "parameters": {},
        "cpus": None,
        "round": block or 0,
        "position": 1,
        "started_monotonic_ns": run * 10**9,
        "started_unix_ms": 1_700_000_000_000 + run * 1000,
        "measurements": measured,
        "details": {},
        "notes": [],
        "exit": {"status": 0},
        "resources": {"wall_ns": 10**9, "user_us": 10, "system_us": 10, "max_rss_bytes": 1 << 20},
        "failure": None,
        "background": None,
        "trial": where | {"kernel_release": "6.18.0", "boot_id": BOOT},
        "raw": {},
    }
    return msgspec.convert(document | fields, RunRecord)
