# SPDX-License-Identifier: Apache-2.0
"""Bytes in JSON: text if they are UTF-8, otherwise base64. The agent also uses base64 if that is shorter."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from typing import Any

import msgspec


class Base64(msgspec.Struct):
    """A JSON object that carries bytes as base64: `{"base64": "…"}`."""

    base64: str


def read_bytes(value: str | Base64 | Mapping[str, Any]) -> bytes:
    """Return the bytes that a reply contains as text or as base64. Raise ValueError for invalid base64."""
    if isinstance(value, str):
        return value.encode()
    encoded = value if isinstance(value, Base64) else msgspec.convert(value, Base64)
    return a2b_base64(encoded.base64, strict_mode=True)


def wire_bytes(data: bytes) -> str | dict[str, str]:
    """Encode the bytes of a request: as text if they are UTF-8, otherwise as base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b2a_base64(data, newline=False).decode()}
