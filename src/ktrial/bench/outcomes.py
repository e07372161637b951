# SPDX-License-Identifier: Apache-2.0
"""Declarations of outcomes. One sentence with `[better|worse]` words describes both directions."""

from __future__ import annotations

import re

from ktrial.kit.outcome import Direction, Outcome, OutcomeKind, Unit

_CHOICE = re.compile(r"\[([^[|\]]*)\|([^[|\]]*)\]")


def outcome(  # noqa: PLR0913 (an outcome has that many properties)
    name: str,
    unit: Unit,
    kind: OutcomeKind,
    sentence: str,
    blind_spots: str,
    within: tuple[float, float],
    *,
    direction: Direction = "lower",
    resolution: float | None = None,
    headline: bool = False,
) -> Outcome:
    """Return an outcome; `sentence` has `[better|worse]` words, `within` is the range of plausible values."""
    return Outcome(
        name=name,
        unit=unit,
        direction=direction,
        kind=kind,
        low=within[0],
        high=within[1],
        better=_CHOICE.sub(r"\1", sentence),
        worse=_CHOICE.sub(r"\2", sentence),
        blind_spots=blind_spots,
        resolution=resolution,
        headline=headline,
    )


def rate(
    name: str,
    unit: Unit,
    sentence: str,
    blind_spots: str,
    within: tuple[float, float],
    *,
    resolution: float | None = None,
    headline: bool = False,
) -> Outcome:
    return outcome(
        name, unit, "rate", sentence, blind_spots, within, direction="higher", resolution=resolution, headline=headline
    )


def latency(
    name: str, sentence: str, blind_spots: str, *, high: float = 60.0, resolution: float = 1e-9, headline: bool = False
) -> Outcome:
    return outcome(
        name, "s", "latency-quantile", sentence, blind_spots, (0.0, high), resolution=resolution, headline=headline
    )
