# SPDX-License-Identifier: Apache-2.0
"""A configuration and the list of fragments, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktrial.kernels.request import Configured, Fragment
from ktrial.kit.tables import labelled, paragraph, table

_LABEL_COLUMNS = 15
_MOST = 20


def config_json(found: Configured, folder: str) -> dict[str, Any]:
    return {
        "schema": "ktrial.kernel-config/1",
        "folder": folder,
        "version": found.version,
        "architecture": found.architecture,
        "compiler": found.compiler,
        "base": found.base,
        "base_sha256": found.base_sha256,
        "fragments": found.fragments,
        "wishes": [{"symbol": one.symbol, "value": one.value, "by": one.by} for one in found.wishes],
        "unheld": found.unheld,
        "differences": found.differences,
        "sha256": found.sha256,
    }


def config_text(found: Configured, folder: str, *, width: int) -> str:
    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    asked = found.asked
    text = line("written", f"{folder}/.config")
    text += line("for", f"Linux {found.version}, {found.architecture}, {found.compiler}")
    text += line("based on", found.base)
    text += line("fragments", ", ".join(found.fragments) or "none")
    held = len(found.wishes) - len(found.unheld)
    text += line("read back", f"{held} of {len(found.wishes)} requested symbols are set as requested")
    wanted = [one for one in found.differences if one.symbol in asked]
    came = [one for one in found.differences if one.symbol not in asked]
    text += line("changes", f"{len(wanted)} requested, {len(came)} as a consequence")
    for title, listed in (("Requested:", wanted), ("Changed as a consequence:", came)):
        rows = [(one.symbol, one.before or "-", one.after or "-") for one in listed[:_MOST]]
        if rows:
            text += f"\n{title}\n{table(('symbol', 'base', 'now'), rows, width=width, whole=1)}\n"
        if len(listed) > _MOST:
            text += f"and {len(listed) - _MOST} more, in --json\n"
    if found.unheld:
        lost = [(one.symbol, one.wanted, one.got or "-", one.why) for one in found.unheld]
        text += f"\nNot accepted:\n{table(('symbol', 'requested', 'is', 'because'), lost, width=width, whole=1)}\n"
    return text


def fragments_json(fragments: Mapping[str, Fragment]) -> dict[str, Any]:
    return {"schema": "ktrial.kernel-fragments/1", "fragments": list(fragments.values())}


def fragments_text(fragments: Mapping[str, Fragment], *, width: int) -> str:
    rows = [
        (name, str(len(one.symbols) + max(map(len, one.arch.values()), default=0)), one.what)
        for name, one in fragments.items()
    ]
    text = f"{table(('fragment', 'symbols', 'what'), rows, width=width, whole=1)}\n"
    notes = [(name, one.note) for name, one in fragments.items() if one.note]
    return text + "\n" + "".join(paragraph(f"{name}: {note}", width=width) + "\n" for name, note in notes)


def fragment_text(fragment: Fragment) -> str:
    sections = [("", fragment.symbols), *((f"# on {name}\n", symbols) for name, symbols in fragment.arch.items())]
    text = f"# {fragment.name}: {fragment.what}\n"
    for head, symbols in sections:
        lines = [
            f"# CONFIG_{name} is not set" if value == "n" else f"CONFIG_{name}={value}"
            for name, value in symbols.items()
        ]
        text += head + "".join(f"{line}\n" for line in lines)
    return text
