# SPDX-License-Identifier: Apache-2.0
"""Output of schbench in each of its layouts: text of 2016, 2021 and since 2023, JSON of May 2025 and later.

Text goes to stderr. At each interval, schbench prints a cumulative block for each label; the last block of a label is
the result. `99.0th:` appears in several blocks. The star marks the percentile that schbench watches (99 for latencies,
50 for requests per second) and is not part of the value. A block of 0 samples prints zeros, which are not results.

Complete text ends with a newline. Since 2023, a line about the whole run follows the last block. Older text ends with
the last block; if it is cut off after an earlier one, it looks like a shorter run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.kit.formats.tool_output import (
    Quantity,
    decode_output,
    ended_lines,
    json_document,
    json_quantity,
    json_table,
    json_whole,
    quantity,
    unreadable,
    whole,
)

_HEADER = re.compile(
    r"(?:(Wakeup|Request) Latencies|(Latency)|(RPS)) percentiles \((usec|requests)\)"
    r"(?: runtime (\d+) \(s\) \((\d+) total samples\))?"
)
_ROW = re.compile(r"\s+(\*?) ?(\d+\.\d+)th: (\S+)(?:\s+\((\d+) samples\))?\s*")
_EXTREMES = re.compile(r"\s+min=([^,\s]+), max=(\S+)")
_JSON_KEY = re.compile(r"(wakeup_latency|request_latency|rps)_(?:pct(\d+\.\d+)|(min|max))")
#: Starts of lines about the whole run, which follow the last block since 2023.
_ENDS = ("average rps:", "final rps goal was ", "avg worker transfer:")
_BLOCKS = {"wakeup_latency": ("wakeup", "us"), "request_latency": ("request", "us"), "rps": ("rps", "1/s")}


class SchbenchBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The last percentiles that schbench printed for one kind of latency, or for requests per second.

    Keys of `percentiles` are like "99" and "99.9"; `samples` is None if not printed.
    """

    percentiles: Mapping[str, Quantity]
    minimum: Quantity | None
    maximum: Quantity | None
    samples: int | None

    @property
    def empty(self) -> bool:
        """Whether there are no samples: schbench prints 0 as their number or, without a number, as the maximum."""
        if self.samples is not None:
            return self.samples == 0
        return self.maximum is not None and self.maximum.value == 0


class SchbenchRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; keys of `blocks` are wakeup, request and rps; `layout` names the version of the output format.

    `average_rps` includes the warm-up; `runtime_s` is None if not printed. JSON has the kernel's release but not the
    version of schbench.
    """

    layout: str
    blocks: Mapping[str, SchbenchBlock]
    average_rps: Quantity | None = None
    rps_goal: int | None = None
    runtime_s: int | None = None
    kernel: str | None = None


class _OpenSection:
    """A block that is being read."""

    def __init__(self, unit: str, samples: int | None) -> None:
        self.unit = unit
        self.samples = samples
        self.percentiles: dict[str, Quantity] = {}
        self.extremes: tuple[Quantity, Quantity] | None = None


def read_schbench(data: bytes, source: str = "stderr") -> SchbenchRun:
    if decode_output(data, source).lstrip().startswith("{"):
        return read_schbench_json(data, source)
    return read_schbench_text(data, source)


def read_schbench_text(data: bytes, source: str = "stderr") -> SchbenchRun:
    blocks: dict[str, _OpenSection] = {}
    current: _OpenSection | None = None
    layout = "2016"
    found: dict[str, Quantity] = {}
    goal: int | None = None
    runtime: int | None = None
    ended = False
    for line, text in ended_lines(data, source):
        ended = text.startswith(_ENDS) or (ended and not _HEADER.match(text))
        if match := _HEADER.match(text):
            label = (match[1] or "wakeup").lower() if match[3] is None else "rps"
            if label in blocks:
                _finished(blocks[label], label, source)
            samples = None if match[6] is None else whole(match[6], source, line, "samples")
            runtime = runtime if match[5] is None else whole(match[5], source, line, "seconds")
            layout = "2023" if match[2] is None else "2016" if samples is None else "2021"
            current = blocks[label] = _OpenSection("us" if match[4] == "usec" else "1/s", samples)
        elif "th:" in text or text.strip().startswith("min="):
            _read_row(text, current, source, line)
        elif text.startswith("average rps:"):
            rps = quantity(text.removeprefix("average rps:"), "1/s", source, line, "requests a second")
            found["average_rps"] = rps
        elif text.startswith("final rps goal was "):
            goal = whole(text.removeprefix("final rps goal was "), source, line, "a goal")
    if not blocks:
        raise unreadable(source, None, "", "output of schbench: it has no line '… percentiles (…)'")
    if layout == "2023" and not ended:
        raise unreadable(
            source,
            None,
            "",
            "complete output of schbench: the lines about the whole run, such as 'average rps: …', are missing",
        )
    done = {label: _finished(block, label, source) for label, block in blocks.items()}
    return SchbenchRun(
        layout=layout, blocks=done, average_rps=found.get("average_rps"), rps_goal=goal, runtime_s=runtime
    )


def _read_row(text: str, current: _OpenSection | None, source: str, line: int) -> None:
    if current is None:
        raise unreadable(source, line, text, "below a line '… percentiles (…)'")
    if match := _ROW.fullmatch(text):
        key = f"{float(match[2]):g}"
        if key in current.percentiles:
            raise unreadable(source, line, text, "the only such percentile below its '… percentiles (…)' line")
        current.percentiles[key] = quantity(match[3], current.unit, source, line, f"the {key}th percentile")
    elif (match := _EXTREMES.fullmatch(text)) and current.extremes is None:
        low = quantity(match[1], current.unit, source, line, "the minimum")
        current.extremes = (low, quantity(match[2], current.unit, source, line, "the maximum"))
    else:
        raise unreadable(source, line, text, "a percentile ('  99.0th: 42 (3 samples)') or 'min=…, max=…'")


def _finished(block: _OpenSection, label: str, source: str) -> SchbenchBlock:
    if not block.percentiles or block.extremes is None:
        raise unreadable(
            source, None, "", f"complete output of schbench: percentiles or 'min=…, max=…' of {label} are missing"
        )
    low, high = block.extremes
    return SchbenchBlock(percentiles=block.percentiles, minimum=low, maximum=high, samples=block.samples)


def read_schbench_json(data: bytes, source: str = "out.json") -> SchbenchRun:
    """Parse the file of `-j`, in the flat layout or in the nested layout of early May 2025."""
    document = json_document(data, source)
    if "int" in document:
        flat = json_table(document["int"], source, "'int'")
        info = json_table(document.get("normal", {}), source, "'normal'")
        layout = "2025-json"
    else:
        info = json_table(document.get("schbench", {}), source, "'schbench'")
        flat = _flattened(info, source)
        layout = "2025-05-json"
    values: dict[str, dict[str, Quantity]] = {}
    for key, value in flat.items():
        if match := _JSON_KEY.fullmatch(key):
            label, unit = _BLOCKS[match[1]]
            name = match[3] or f"{float(match[2]):g}"
            values.setdefault(label, {})[name] = json_quantity(value, unit, source, key)
    blocks = {label: _json_block(items) for label, items in values.items()}
    if not any(block.percentiles for block in blocks.values()):
        raise unreadable(source, None, "", "output of schbench: it has no percentiles")
    kernel = info.get("version")
    runtime = flat.get("runtime")
    return SchbenchRun(
        layout=layout,
        blocks=blocks,
        kernel=kernel if isinstance(kernel, str) else None,
        runtime_s=None if runtime is None else json_whole(runtime, source, "runtime"),
    )


def _flattened(info: Mapping[str, Any], source: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name in _BLOCKS:
        if name in info:
            block = json_table(info[name], source, name)
            percentiles = json_table(block.get("percentiles", {}), source, f"{name}.percentiles")
            flat |= {f"{name}_pct{key}": value for key, value in percentiles.items()}
            flat |= {f"{name}_{key}": block[key] for key in ("min", "max") if key in block}
    return flat


def _json_block(items: Mapping[str, Quantity]) -> SchbenchBlock:
    percentiles = {key: value for key, value in items.items() if key not in {"min", "max"}}
    return SchbenchBlock(percentiles=percentiles, minimum=items.get("min"), maximum=items.get("max"), samples=None)
