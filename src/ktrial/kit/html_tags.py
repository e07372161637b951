# SPDX-License-Identifier: Apache-2.0
"""HTML that cannot be broken by what is put into it: plain text is always escaped, only `Markup` is not."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ktrial.kit.tables import clean


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


#: A part of a page; whatever is no Markup is foreign text.
Part = str | Iterable["Part"] | None
_EMPTY_ELEMENTS = frozenset({"meta", "link", "br", "hr", "input", "col"})


def render(part: Part) -> Markup:
    """Markup of a part: foreign text without control characters, escaped."""
    if part is None:
        return Markup("")
    if isinstance(part, Markup):
        return part
    if isinstance(part, str):
        return Markup(escape(clean(part)))
    return Markup("".join(render(one) for one in part))


def tag(name: str, /, *parts: Part, **attributes: str | int | bool | None) -> Markup:
    """Return an element. `_` in names of attributes is `-`, one at the end is dropped; None and False leave one out."""
    told = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        told += f" {shown}" if value is True else f' {shown}="{escape(clean(str(value)))}"'
    if name in _EMPTY_ELEMENTS:
        return Markup(f"<{name}{told}>")
    return Markup(f"<{name}{told}>{render(parts)}</{name}>")
