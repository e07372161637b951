# SPDX-License-Identifier: Apache-2.0
"""JSON with a byte that is no UTF-8 within a text is refused like any other that cannot be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ktrial.bench.adapters._agent_load_reply import read_load
from ktrial.bench.watched import read_watched
from ktrial.judge.model.log import decode
from ktrial.kit.errors import BadInput, UnreadableOutput
from ktrial.machine.disturbance import read_list_timers


@pytest.mark.parametrize(
    "read, data",
    [
        (read_load, b'{"ok": {"load": "spin\x80"}}'),
        (read_watched, b'{"before": {"\x80": "1"}, "after": {}, "seconds": 1}'),
        (lambda data: read_list_timers(data, "here"), b'[{"unit": "\x80", "activates": "x", "next": 1}]'),
        (lambda data: decode(data, "here"), b'{"event": "\x80"}\n'),
    ],
    ids=["load", "watched", "timers", "log of a trial"],
)
def test_it_is_named_and_refused(read: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises((UnreadableOutput, BadInput)):
        read(data)
