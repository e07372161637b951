# SPDX-License-Identifier: Apache-2.0
"""Logs that sample the frame rate. Each gives one run with the mean, because these logs have no single frames."""

from __future__ import annotations

from ktrial.judge.model.query import ImportOptions
from ktrial.recordings.frames.samples import is_afterburner, is_telemetry, read_afterburner, read_telemetry
from ktrial.results.foreign import ForeignResults, slug, stem
from ktrial.results.importers._shared import sampled_run

NAME = "frame-samples"
WHAT = "Sampled frame rates: logs of MSI Afterburner (.hml), telemetry of X-Plane (CSV)."
TAKES_FRAMES = True


def sniff(head: bytes, name: str) -> bool:
    return is_afterburner(head) or is_telemetry(head)


def read(data: bytes, name: str, options: ImportOptions) -> ForeignResults:
    """Return one run; its benchmark has the file's name."""
    samples = read_afterburner(data, name) if is_afterburner(data) else read_telemetry(data, name)
    return sampled_run(samples, NAME, name, slug(stem(name)), options)
