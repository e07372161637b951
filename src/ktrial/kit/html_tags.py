# SPDX-License-Identifier: Apache-2.0
"""Build HTML safely: text is always escaped; only `Markup` is inserted unchanged."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ktrial.kit.tables import clean


class Markup(str):
    """Text that is HTML already; `render` inserts it unchanged."""

    __slots__ = ()


#: A part of a page. Text that is not Markup is foreign and is escaped.
Part = str | Iterable["Part"] | None
_EMPTY_ELEMENTS = frozenset({"meta", "link", "br", "hr", "input", "col"})


def render(part: Part) -> Markup:
    """Return a part as HTML. Escape text that is not Markup, and replace its control characters."""
    if part is None:
        return Markup("")
    if isinstance(part, Markup):
        return part
    if isinstance(part, str):
        return Markup(escape(clean(part)))
    return Markup("".join(render(one) for one in part))


def tag(name: str, /, *parts: Part, **attributes: str | int | bool | None) -> Markup:
    """Return an HTML element that contains `parts`.

    In attribute names `_` becomes `-` and a final `_` is dropped. Attributes that are None or False are omitted.
    """
    shown_attributes = ""
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        shown_attributes += f" {shown}" if value is True else f' {shown}="{escape(clean(str(value)))}"'
    if name in _EMPTY_ELEMENTS:
        return Markup(f"<{name}{shown_attributes}>")
    return Markup(f"<{name}{shown_attributes}>{render(parts)}</{name}>")
