# SPDX-License-Identifier: Apache-2.0
"""Each metric that docs/live-sources.md shows is one that can be read, and no kind of source is left out."""

from __future__ import annotations

import re
from pathlib import Path

from ktrial.live.parse import KINDS, parse_metrics

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "live-sources.md").read_text(encoding="utf-8")


def test_each_metric_can_be_read() -> None:
    blocks = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    kinds = set()
    for block in blocks:
        found = re.findall(r"^--metric '([^']*)'$", block, re.MULTILINE)
        assert len(found) == block.count("--metric")
        kinds |= {metric.source.partition(":")[0] for metric in parse_metrics(found)}
    assert kinds == set(KINDS)


def test_each_kind_is_in_the_table() -> None:
    assert set(re.findall(r"\| `([a-z]+):` \|", PAGE)) == set(KINDS)
