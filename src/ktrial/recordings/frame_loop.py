# SPDX-License-Identifier: Apache-2.0
"""Arguments and output of the agent's frame loop, a program to watch if no game is at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping

#: The loop's lines: when a frame ended on the monotonic clock, and the time since the previous one.
LINES = r"^frame (?P<at>\d+\.\d+) (?P<ms>\d+\.\d+)$"
#: The load beside the frames, as parameters of the load `pressure`.
KINDS: Mapping[str, Mapping[str, int]] = {"calm": {"readers": 0, "bursts_per_s": 0}, "pressure": {}}
#: Memory left available in a guest, which has less memory than a load leaves on a machine.
GUEST_RESERVE_BYTES = 256 << 20
#: Longest duration of a load.
LONGEST_S = 3600.0


def loop_arguments(kind: str, duration_s: float, more: Mapping[str, int] | None = None) -> tuple[str, str]:
    """Return the name of the agent's load, and its parameters as JSON. The load runs for at most LONGEST_S.

    `kind` is one of KINDS, or a JSON object with parameters. `more` adds parameters. Raise ValueError for another kind.
    """
    parameters = KINDS[kind] if kind in KINDS else json.loads(kind)
    if not isinstance(parameters, Mapping) or "duration_s" in parameters:
        raise ValueError
    return "frame-loop", json.dumps({**parameters, **(more or {}), "duration_s": min(duration_s, LONGEST_S)})
