# SPDX-License-Identifier: Apache-2.0
"""Turn a comparison into files for a git repository; publishing unchanged data again gives the same bytes."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from typing import Any

from ktrial.judge.model.comparison import Comparison, Point
from ktrial.kit import plain_json
from ktrial.kit.tables import clean
from ktrial.reports.charts import comparison_charts, outcome_charts
from ktrial.reports.charts.drawing import Chart, Style
from ktrial.reports.charts.svg import svg_bytes
from ktrial.reports.markdown import markdown
from ktrial.reports.order import by_weight

#: The list of published files, in the format of `sha256sum`.
LIST = "SHA256SUMS"
_WIDE = 900
_MOST_CHARTED = 24
_LONGEST_NAME = 80


def publication(comparison: Comparison, data: Mapping[str, bytes] = {}, *, has_data: bool = False) -> dict[str, bytes]:
    """Return the content of each file by name: report, charts, comparison, and a file for each run.

    If the comparison has commands that reproduce it, they become a script. `data` holds files with the raw data;
    `has_data` says that the folder has such files already.
    """
    files: dict[str, bytes] = {}
    pictures: dict[str, list[tuple[str, str]]] = {"": []}
    for chart in comparison_charts(comparison, Style(width=_WIDE)):
        _add(files, pictures[""], chart, "")
    for outcome in by_weight(comparison.outcomes)[:_MOST_CHARTED]:
        shown = pictures.setdefault(outcome.name, [])
        for chart in outcome_charts(comparison, outcome, Style()):
            _add(files, shown, chart, f"{outcome.name}-")
    files["README.md"] = markdown(comparison, pictures).encode()
    files["comparison.json"] = plain_json.document(comparison)
    files |= _runs(comparison)
    if comparison.trial is not None:
        lines = [*_kernels(comparison), *comparison.trial.text.removesuffix("\n").split("\n")]
        files["trial.toml"] = "".join(f"{clean(line)}\n" for line in lines).encode()
    if comparison.exclusions:
        files["exclusions.json"] = plain_json.document(comparison.exclusions)
    if comparison.reproduce:
        files["reproduce.sh"] = _script(comparison, has_data=has_data or bool(data)).encode()
    files |= data
    sums = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    files[LIST] = "".join(sums).encode()
    return files


def _kernels(comparison: Comparison) -> list[str]:
    """Return a comment with each arm's kernel, because `running` in a protocol is another kernel on another machine."""
    arms: dict[str, list[str]] = {}
    for arm in comparison.arms:
        if kernel := arm.known.get("kernel"):
            arms.setdefault(kernel, []).append(arm.arm)
    return [f"# Linux {kernel}: {', '.join(names)}" for kernel, names in arms.items()]


def _add(files: dict[str, bytes], pictures: list[tuple[str, str]], chart: Chart, before: str) -> None:
    name = _free(f"charts/{_slug(before + chart.name)}", ".svg", files)
    files[name] = svg_bytes(chart)
    pictures.append((chart.title, name))


def _slug(text: str) -> str:
    """Return a file name of letters, digits, dots and hyphens: no path, hidden file or command option."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:_LONGEST_NAME] or "unnamed"


def _free(stem: str, suffix: str, taken: dict[str, bytes]) -> str:
    """Return an unused name, also for file systems that ignore case."""
    lower = {name.lower() for name in taken}
    name, number = f"{stem}{suffix}", 2
    while name.lower() in lower:
        name, number = f"{stem}-{number}{suffix}", number + 1
    return name


def _runs(comparison: Comparison) -> dict[str, bytes]:
    """Return a file for each run with all its measurements."""
    documents: dict[tuple[str, str], dict[str, Any]] = {}
    for outcome in comparison.outcomes:
        for values in outcome.arms:
            for point in values.points:
                about = documents.setdefault((values.arm, point.run), _about(values.arm, point))
                about["measurements"][outcome.name] = {"value": point.value, "unit": outcome.unit}
    files: dict[str, bytes] = {}
    counted: dict[str, int] = {}
    for (_, run), document in documents.items():
        stem = f"runs/{_slug(run)}"
        counted[stem.lower()] = times = counted.get(stem.lower(), 0) + 1
        files[f"{stem}.json" if times == 1 else _free(f"{stem}-{times}", ".json", files)] = plain_json.document(
            document
        )
    return files


def _about(arm: str, point: Point) -> dict[str, Any]:
    return {
        "schema": "ktrial.published-run/1",
        "run": point.run,
        "arm": arm,
        "place": point.place,
        "block": point.block,
        "temperature_c": point.temperature_c,
        "conditions": dict(sorted(point.conditions.items())),
        "measurements": {},
    }


def _script(comparison: Comparison, *, has_data: bool) -> str:
    """Return a script with the commands, each word quoted; commands other than ktrial become comments.

    If the folder has the data, the script recomputes every number on any machine. The original commands become
    comments, because they name files of the author's machine. Otherwise the script runs the trial again and rechecks
    the new one.
    """
    lines = ["#!/bin/sh", f"# {clean(comparison.title)}", "set -eu"]
    if comparison.trial is not None and not has_data:
        lines += [
            'cd "$(dirname "$0")"',
            "# Run the trial again on this machine; the published numbers come from another one.",
        ]
        return "\n".join((*lines, "ktrial trial run trial.toml", "ktrial trial recheck")) + "\n"
    if has_data:
        lines += [
            'cd "$(dirname "$0")"',
            "# Recompute every number from data/:",
            "ktrial recheck .",
            "# Original commands:",
        ]
    for command in comparison.reproduce:
        shown = clean(command)
        try:
            words = shlex.split(shown)
        except ValueError:
            words = []
        if words[1:2] == ["--store"]:
            del words[1:3]  # a place on the author's machine
        ours = bool(words) and words[0] in {"ktrial", "./ktrial"}
        line = shlex.join(words) if ours else f"# not a ktrial command: {shown}"
        lines.append(f"# {line}" if has_data and ours else line)
    return "\n".join(lines) + "\n"
