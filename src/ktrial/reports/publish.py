# SPDX-License-Identifier: Apache-2.0
"""A comparison as files for a repository that change no more than it does."""

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

#: Lists what was published, as `sha256sum` writes it.
LIST = "SHA256SUMS"
_WIDE = 900
_MOST_CHARTED = 24
_LONGEST_NAME = 80


def publication(comparison: Comparison, data: Mapping[str, bytes] = {}, *, has_data: bool = False) -> dict[str, bytes]:
    """File name -> content: the report, its charts, the comparison, a file for each run, how to get it again.

    `data` are files with what it was made from; `has_data` says that there are such beside these.
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
    files["comparison.json"] = _json(comparison)
    files |= _runs(comparison)
    if comparison.trial is not None:
        lines = [*_kernels(comparison), *comparison.trial.text.removesuffix("\n").split("\n")]
        files["trial.toml"] = "".join(f"{clean(line)}\n" for line in lines).encode()
    if comparison.exclusions:
        files["exclusions.json"] = _json(comparison.exclusions)
    if comparison.reproduce:
        files["reproduce.sh"] = _script(comparison, has_data=has_data or bool(data)).encode()
    files |= data
    sums = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    files[LIST] = "".join(sums).encode()
    return files


def _kernels(comparison: Comparison) -> list[str]:
    """On which kernels the arms ran, as comments of the protocol: a word like `running` names another one elsewhere."""
    arms: dict[str, list[str]] = {}
    for arm in comparison.arms:
        if kernel := arm.known.get("kernel"):
            arms.setdefault(kernel, []).append(arm.arm)
    return [f"# Linux {kernel}: {', '.join(names)}" for kernel, names in arms.items()]


def _json(value: Any) -> bytes:
    return plain_json.document(value)


def _add(files: dict[str, bytes], pictures: list[tuple[str, str]], chart: Chart, before: str) -> None:
    name = _free(f"charts/{_slug(before + chart.name)}", ".svg", files)
    files[name] = svg_bytes(chart)
    pictures.append((chart.title, name))


def _slug(text: str) -> str:
    """Return a name of letters, digits, dots, hyphens: no path, no hidden file, no option of a command."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:_LONGEST_NAME] or "unnamed"


def _free(stem: str, suffix: str, taken: dict[str, bytes]) -> str:
    """Return a name that no other one equals, not even where letter case does not count."""
    lower = {name.lower() for name in taken}
    name, number = f"{stem}{suffix}", 2
    while name.lower() in lower:
        name, number = f"{stem}-{number}{suffix}", number + 1
    return name


def _runs(comparison: Comparison) -> dict[str, bytes]:
    """Return a file for each run with all that was measured in it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for outcome in comparison.outcomes:
        for values in outcome.arms:
            for point in values.points:
                about = found.setdefault((values.arm, point.run), _about(values.arm, point))
                about["measurements"][outcome.name] = {"value": point.value, "unit": outcome.unit}
    files: dict[str, bytes] = {}
    counted: dict[str, int] = {}
    for (_, run), document in found.items():
        stem = f"runs/{_slug(run)}"
        counted[stem.lower()] = times = counted.get(stem.lower(), 0) + 1
        files[f"{stem}.json" if times == 1 else _free(f"{stem}-{times}", ".json", files)] = _json(document)
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
    """Return the commands, each word quoted; what is no command of ktrial stays a comment.

    With the data beside it, the script computes every number again on any machine. Without them it runs a trial anew
    and rechecks that. The original commands stay as comments: they name files of the author's machine.
    """
    lines = ["#!/bin/sh", f"# {clean(comparison.title)}", "set -eu"]
    if comparison.trial is not None and not has_data:
        lines += [
            'cd "$(dirname "$0")"',
            "# Run the trial again on this machine; the published numbers come from another one.",
        ]
        return "\n".join((*lines, "ktrial trial run trial.toml", "ktrial trial recheck")) + "\n"
    if has_data:
        lines += ['cd "$(dirname "$0")"', "# Every number again, from data/:", "ktrial recheck .", "# How they came:"]
    for command in comparison.reproduce:
        shown = clean(command)
        try:
            words = shlex.split(shown)
        except ValueError:
            words = []
        ours = bool(words) and words[0] in {"ktrial", "./ktrial"}
        line = shlex.join(words) if ours else f"# not a command of ktrial: {shown}"
        lines.append(f"# {line}" if has_data and ours else line)
    return "\n".join(lines) + "\n"
