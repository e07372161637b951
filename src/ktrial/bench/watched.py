# SPDX-License-Identifier: Apache-2.0
"""Kernel counters before and after a run, for benchmarks that ask for them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ktrial.bench.benchmark import WATCHED
from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.json_strict import decode_as


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the readable files, before and after a run. The two readings are `seconds` apart."""

    before: dict[str, str]
    after: dict[str, str]
    seconds: Annotated[float, msgspec.Meta(gt=0, lt=1e7)]


def read_watched(data: bytes) -> Watched:
    try:
        return decode_as(data, Watched)
    except msgspec.DecodeError as error:
        start = data[:60].decode("utf-8", "backslashreplace")
        raise UnreadableOutput(WATCHED, None, start, f"a record of counters ({error})") from None
