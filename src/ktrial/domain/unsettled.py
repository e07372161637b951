# SPDX-License-Identifier: Apache-2.0
"""What the agent's journals say that somebody has to decide, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

UNFINISHED = "unfinished"


def unfinished(transaction: Mapping[str, Any]) -> str:
    """That a transaction is unfinished, why, and what to do."""
    why = transaction.get("unfinished") or "`ktrial recover` tries again"
    return f"transaction {transaction['transaction']} is unfinished: {why}"


def unsettled(status: Mapping[str, Any]) -> Iterator[str]:
    """Unfinished transactions, lines that cannot be trusted, and what lies among the journals and is none."""
    yield from (unfinished(item) for item in status.get("transactions", ()) if item.get("state") == UNFINISHED)
    damaged: dict[str, list[str]] = {}
    for item in status.get("damaged", ()):
        damaged.setdefault(item["file"], []).append(item["message"])
    for file, messages in damaged.items():
        more = f"; and {len(messages) - 1} more" if len(messages) > 1 else ""
        yield f"damaged: {file}: {messages[0]}{more}"
    yield from (f"skipped: {item['file']}: {item['message']}" for item in status.get("skipped", ()))
