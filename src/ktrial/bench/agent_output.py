# SPDX-License-Identifier: Apache-2.0
"""Convert the agent's replies to `exec` and `load` into `RawOutput`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.bench.benchmark import RawOutput
from ktrial.kit.json_bytes import read_bytes


def exec_output(answer: Mapping[str, Any]) -> RawOutput:
    ended = answer["exit"]
    usage = answer.get("rusage") or {}
    stdout, stderr = read_bytes(answer["stdout"]), read_bytes(answer["stderr"])
    return RawOutput(
        stdout=stdout,
        stderr=stderr,
        exit_status=ended.get("status"),
        signal=ended.get("signal"),
        failed=ended.get("failed"),
        timed_out=answer["timed_out"],
        cut=answer["stdout_total_bytes"] > len(stdout) or answer["stderr_total_bytes"] > len(stderr),
        wall_ns=answer["wall_ns"],
        user_us=usage.get("user_us"),
        system_us=usage.get("system_us"),
        max_rss_bytes=usage.get("max_rss_bytes"),
        network=answer.get("network"),
    )


def load_output(answer: Mapping[str, Any]) -> RawOutput:
    """Return the agent's reply to the request `load` as an output; its stdout is the reply's JSON."""
    return RawOutput(
        stdout=msgspec.json.encode(answer, order="sorted"),
        exit_status=0,
        wall_ns=answer.get("wall_ns"),
        network=answer.get("results", {}).get("network"),
    )
