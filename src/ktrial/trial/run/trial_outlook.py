# SPDX-License-Identifier: Apache-2.0
"""How long a trial still takes: to its cap, and to where it will probably be decided."""

from __future__ import annotations

import msgspec

from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import Protocol


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks and seconds that are left; null where nothing is known of them. `stop` is the expected last block."""

    cap: int | None
    stop: int | None
    cap_s: float | None
    stop_s: float | None


def outlook(protocol: Protocol, judgement: Judgement | None, run_s: float | None, done: int) -> Outlook:
    """From what the judge says and what a run takes; `done` runs of the present block are over."""
    each = protocol.runs_per_visit
    if protocol.replicate != "run" or "kernel" in protocol.varies:
        # What lies between the visits is up to a person, or to a compiler.
        run_s = None
    if judgement is None:
        first = protocol.cap
        return Outlook(
            cap=first, stop=None, cap_s=_left_s(first, 0, each * len(protocol.arms), run_s, done), stop_s=None
        )
    from ktrial.judge.outlook import expected_stop

    stop = expected_stop(protocol, judgement)
    alive = each * (len(protocol.arms) - len(judgement.dropped))
    cap = judgement.cap if judgement.next.action != "stop" else None
    return Outlook(
        cap=judgement.cap,
        stop=stop,
        cap_s=_left_s(cap, judgement.blocks, alive, run_s, done),
        stop_s=_left_s(stop, judgement.blocks, alive, run_s, done),
    )


def _left_s(last: int | None, blocks: int, runs: int, run_s: float | None, done: int) -> float | None:
    if last is None or run_s is None:
        return None
    return max(0, (last - blocks) * runs - done) * run_s
