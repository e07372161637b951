# SPDX-License-Identifier: Apache-2.0
"""Names for what foreign files do not name."""

from __future__ import annotations

import re


def stem(name: str) -> str:
    """A file's name without its folder and its ending."""
    base = name.rsplit("/", 1)[-1]
    return base.rsplit(".", 1)[0] or base


def slug(text: str) -> str:
    """A benchmark's name out of any text: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"
