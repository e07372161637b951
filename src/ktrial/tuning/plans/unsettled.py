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


def left_alone(transaction: Mapping[str, Any]) -> str:
    """What a revert left alone, and what puts it back."""
    number, paths = transaction["transaction"], transaction["left_alone"]
    what = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return (
        f"transaction {number} was reverted, but {what} was changed by somebody else and left alone: "
        f"`ktrial revert --only {number} --force` restores the old value{'s'[: len(paths) > 1]}"
    )


def unsettled(status: Mapping[str, Any]) -> Iterator[str]:
    """Unfinished transactions, what reverts left alone, lines that cannot be trusted, and what is no journal."""
    yield from (unfinished(item) for item in status.get("transactions", ()) if item.get("state") == UNFINISHED)
    yield from (left_alone(item) for item in status.get("transactions", ()) if item.get("left_alone"))
    damaged: dict[str, list[str]] = {}
    for item in status.get("damaged", ()):
        damaged.setdefault(item["file"], []).append(item["message"])
    for file, messages in damaged.items():
        more = f"; and {len(messages) - 1} more" if len(messages) > 1 else ""
        yield f"damaged: {file}: {messages[0]}{more}"
    yield from (f"skipped: {item['file']}: {item['message']}" for item in status.get("skipped", ()))
