# SPDX-License-Identifier: Apache-2.0
"""Counters of the kernel as a run found and left them: what a benchmark gets that asked to watch them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ktrial.bench.benchmark import WATCHED
from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.json_strict import decode_as


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The files' texts on both sides, `seconds` apart; one that could not be read is not there."""

    before: dict[str, str]
    after: dict[str, str]
    seconds: Annotated[float, msgspec.Meta(gt=0, lt=1e7)]


def read_watched(data: bytes) -> Watched:
    try:
        return decode_as(data, Watched)
    except msgspec.DecodeError as error:
        start = data[:60].decode("utf-8", "backslashreplace")
        raise UnreadableOutput(WATCHED, None, start, f"the counters around a run: {error}") from None
