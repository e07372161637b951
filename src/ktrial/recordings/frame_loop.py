# SPDX-License-Identifier: Apache-2.0
"""The agent's frame loop as a program of its own, where no game is at hand: its arguments, and what its lines tell."""

from __future__ import annotations

import json
from collections.abc import Mapping

#: Lines of the loop: when a frame ended on the monotonic clock, and how long after the one before.
LINES = r"^frame (?P<at>\d+\.\d+) (?P<ms>\d+\.\d+)$"
#: What goes on beside the frames, in parameters of the load `pressure`.
KINDS: Mapping[str, Mapping[str, int]] = {"calm": {"readers": 0, "bursts_per_s": 0}, "pressure": {}}
#: What stays available in a guest, whose memory is less than what a load leaves a machine.
GUEST_RESERVE_BYTES = 256 << 20
#: The longest that a load goes on.
LONGEST_S = 3600.0


def loop_arguments(kind: str, duration_s: float, more: Mapping[str, int] | None = None) -> tuple[str, str]:
    """What the agent is started with; `kind` is one of KINDS, or parameters of the load as a JSON object; and `more`.

    Raises ValueError.
    """
    parameters = KINDS[kind] if kind in KINDS else json.loads(kind)
    if not isinstance(parameters, Mapping) or "duration_s" in parameters:
        raise ValueError
    return "frame-loop", json.dumps({**parameters, **(more or {}), "duration_s": min(duration_s, LONGEST_S)})
