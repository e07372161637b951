# SPDX-License-Identifier: Apache-2.0
"""A protocol as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def protocol_rows(protocol: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each value under its place in the document, as `design.cap`."""
    return list(_rows(protocol, ""))


def _rows(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _rows(value, f"{above}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{above}{name}", ", ".join(map(str, value))
        else:
            yield f"{above}{name}", "-" if value is None or value == {} else str(value)
