# SPDX-License-Identifier: Apache-2.0
"""JSON of iperf3 (`-J`, TCP): request, received data, retransmits, and each end's congestion control."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.kit.errors import BadRun
from ktrial.kit.formats.tool_output import (
    Quantity,
    json_document,
    json_quantity,
    json_table,
    json_whole,
    unreadable,
    unreadable_value,
)

#: 3.12 writes these keys into the same object once per stream.
_REPEATED = frozenset({"sock_bufsize", "sndbuf_actual", "rcvbuf_actual"})


class Iperf3Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the client. `retransmits` and the congestion controls are None if the kernel does not report them.

    With `is_reverse`, the server sent the data.
    """

    version: str
    streams: int
    duration_s: int
    omit_s: int
    goodput: Quantity
    retransmits: int | None
    sender_congestion: str | None
    receiver_congestion: str | None
    is_reverse: bool = False


def read_iperf3(data: bytes, source: str = "stdout") -> Iperf3Run:
    """Parse the JSON. Raise BadRun if iperf3 reports a failure, which it may do with status 0."""
    document = json_document(data, source, _REPEATED)
    said = document.get("error")
    if said is not None:
        raise BadRun(f"iperf3 says: {said}", hint="run iperf3 by hand to see the cause")
    start = json_table(document.get("start"), source, "'start'")
    asked = json_table(start.get("test_start"), source, "start.test_start")
    if asked.get("protocol") != "TCP":
        raise unreadable(source, None, str(asked.get("protocol")), "the protocol TCP")
    end = json_table(document.get("end"), source, "'end'")
    sent = json_table(end.get("sum_sent"), source, "end.sum_sent")
    received = json_table(end.get("sum_received"), source, "end.sum_received")
    version = start.get("version")
    if not isinstance(version, str) or not version.startswith("iperf "):
        raise unreadable_value(source, version, "iperf3's version")
    return Iperf3Run(
        version=version.removeprefix("iperf "),
        streams=json_whole(asked.get("num_streams"), source, "num_streams"),
        duration_s=json_whole(asked.get("duration"), source, "duration"),
        omit_s=json_whole(asked.get("omit"), source, "omit"),
        goodput=json_quantity(received.get("bits_per_second"), "bit/s", source, "sum_received.bits_per_second"),
        retransmits=json_whole(sent["retransmits"], source, "retransmits") if "retransmits" in sent else None,
        sender_congestion=_name(end, "sender_tcp_congestion", source),
        receiver_congestion=_name(end, "receiver_tcp_congestion", source),
        is_reverse=asked.get("reverse") == 1,
    )


def _name(end: Mapping[str, Any], key: str, source: str) -> str | None:
    value = end.get(key)
    if value is not None and not isinstance(value, str):
        raise unreadable_value(source, value, f"a name ({key})")
    return value
