# SPDX-License-Identifier: Apache-2.0
"""The identity of a kernel and the difference between two, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktrial.kernels.build_record import Flags
from ktrial.kernels.built_objects import object_lines
from ktrial.kernels.identity import SHOWN, KernelFound, identity_differences, symbol_differences
from ktrial.kit.tables import labelled, paragraph, table

_LABEL_COLUMNS = 15
_UNKNOWN = "unknown"
_NO_CONFIG = "HZ, LTO and optimisation are unknown: ktrial found no configuration."


def inspect_json(found: KernelFound, flags: Flags | None = None, *, with_config: bool) -> dict[str, Any]:
    symbols = found.symbols
    return {
        "schema": "ktrial.kernel/1",
        "name": found.name,
        "place": found.place,
        "identity": found.identity,
        "flags": flags,
        "symbols": None if symbols is None else len(symbols),
        "objects": found.objects,
        **({"config": symbols} if with_config else {}),
    }


def inspect_text(found: KernelFound, flags: Flags | None = None, *, width: int) -> str:
    identity = found.identity

    def line(label: str, text: str) -> str:
        return labelled(label, text, width=width, label_columns=_LABEL_COLUMNS) + "\n"

    text = line("kernel", found.place)
    for field, label in SHOWN.items():
        text += line(label, _words(getattr(identity, field)))
    if flags is not None:
        text += line("compiled with", f"-O{flags.optimise} -march={flags.march or _UNKNOWN} ({flags.object})")
    switched = sum(value in ("y", "m") for value in (found.symbols or {}).values())
    text += line("configuration", f"{identity.config_from}, {switched} symbols on" if found.symbols else _UNKNOWN)
    for label, words in object_lines(found.objects) if found.objects is not None else ():
        text += line(label, words)
    notes = [*identity.notes, *([] if found.symbols else [_NO_CONFIG])]
    return text + "".join(paragraph(f"{note[0].upper()}{note[1:]}", width=width) + "\n" for note in notes)


Sysctls = Mapping[str, tuple[str | None, str | None]]


def diff_json(before: KernelFound, after: KernelFound, sysctls: Sysctls | None) -> dict[str, Any]:
    known = before.symbols is not None and after.symbols is not None
    return {
        "schema": "ktrial.kernel-diff/1",
        "before": {"name": before.name, "place": before.place},
        "after": {"name": after.name, "place": after.place},
        "identity": {
            name: {"before": pair[0], "after": pair[1]}
            for name, pair in identity_differences(before.identity, after.identity).items()
        },
        "symbols": symbol_differences(before.symbols or {}, after.symbols or {}) if known else None,
        "sysctls": None
        if sysctls is None
        else {name: {"before": pair[0], "after": pair[1]} for name, pair in sysctls.items()},
    }


def diff_text(before: KernelFound, after: KernelFound, sysctls: Sysctls | None, *, width: int) -> str:
    """Return tables of the differences: identity, default sysctls (unless `sysctls` is None), configuration symbols."""
    heads = ("", *(found.name.rstrip("/").rpartition("/")[2] for found in (before, after)))
    found = identity_differences(before.identity, after.identity)
    rows = [(SHOWN[name], _words(pair[0]), _words(pair[1])) for name, pair in found.items()]
    text = f"{table(heads, rows, width=width)}\n" if rows else "The identities of the kernels are equal.\n"
    if sysctls is not None:
        values = [(name, first or "-", second or "-") for name, (first, second) in sysctls.items()]
        listed = table(("sysctl", *heads[1:]), values, width=width, whole=1) if values else ""
        text += f"\n{len(sysctls)} default sysctls differ{':' if sysctls else '.'}\n{listed}\n"
    if before.symbols is None or after.symbols is None:
        missing = " and ".join(found.name for found in (before, after) if found.symbols is None)
        why = f"Cannot compare the configurations: ktrial found none for {missing}."
        return text + paragraph(why, width=width) + "\n"
    symbols = symbol_differences(before.symbols, after.symbols)
    if not symbols:
        return f"{text}\nTheir configurations are equal.\n"
    changed = [(one.symbol, one.before or "-", one.after or "-") for one in symbols]
    return f"{text}\n{len(symbols)} symbols differ:\n{table(('symbol', *heads[1:]), changed, width=width, whole=1)}\n"


def list_json(kernels: Mapping[str, str], running: str) -> dict[str, Any]:
    listed = [{"version": name, "image": place, "runs": name == running} for name, place in kernels.items()]
    return {"schema": "ktrial.kernels/1", "running": running, "kernels": listed}


def list_text(kernels: Mapping[str, str], running: str, *, width: int) -> str:
    rows: Sequence[tuple[str, str, str]] = [
        (name, "runs" if name == running else "", place) for name, place in kernels.items()
    ]
    text = f"{table(('version', '', 'image'), rows, width=width, whole=1)}\n" if rows else ""
    if running not in kernels:
        text += paragraph(f"The running kernel {running} has no image installed here.", width=width) + "\n"
    return text


def _words(value: object) -> str:
    if value is None:
        return _UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
