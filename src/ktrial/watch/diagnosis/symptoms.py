# SPDX-License-Identifier: Apache-2.0
"""The possible causes of stutters and their signs in a recording, from the table `catalog/symptoms.toml`.

`load_symptoms` checks that the knobs in the table exist and accept their values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.toml_files import BUILT_IN, read_toml
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.value import kernel_text


def load_symptoms(catalog: Catalog, path: Path = BUILT_IN / "symptoms.toml") -> dict[str, Symptom]:
    """Return the causes by id, in the order of the file. Raise BadInput if the file is invalid."""
    found: dict[str, Symptom] = {}
    for symptom in read_toml(path, SymptomFile).symptom:
        if symptom.id in found:
            raise BadInput(f"duplicate symptom {symptom.id}", file=str(path), hint="rename one of the two symptoms")
        try:
            for remedy in symptom.remedy:
                knob = find_knob(remedy.knob, catalog.knobs)
                if remedy.value is not None:
                    kernel_text(knob, remedy.value)
        except KtrialError as error:
            raise BadInput(f"{symptom.id}: {error.message}", file=str(path), hint=error.hint) from None
        found[symptom.id] = symptom
    for symptom in found.values():
        unknown = sorted(set(symptom.makes) - set(found))
        if unknown:
            raise BadInput(
                f"{symptom.id}: `makes` names {unknown[0]}, which is not a symptom",
                file=str(path),
                hint=f"use one of: {', '.join(sorted(found))}",
            )
    return found


#: Methods that compute a value for the machine and the recording.
Compute = Literal["watermark-lead", "group-memory", "group-cpu", "irq-away", "zram-half", "double", "half", "zero"]


class Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A series that is beyond its limit while a cause is active. A sign has exactly one limit.

    `series` are patterns; each match is evaluated separately. `above` and `below` are values in the series' unit (for
    counters, of the growth per second). `times_usual` and `share_of_usual` are multiples of the series' median. `over`
    is the last part of the name of a neighbouring series; the limit then applies to the ratio of the two.
    """

    series: tuple[str, ...]
    over: str | None = None
    above: float | None = None
    below: float | None = None
    times_usual: float | None = None
    share_of_usual: float | None = None

    def __post_init__(self) -> None:
        limits = (self.above, self.below, self.times_usual, self.share_of_usual)
        if sum(limit is not None for limit in limits) != 1:
            raise ValueError("a sign needs exactly one limit: above, below, times_usual or share_of_usual")


class Happening(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Events of at least `least_s` that show an active cause.

    Events of one thread with at most `together_s` between them are merged, and their durations added. If the events
    cover more than the share `victims_above` of the recording, only events of the frame thread count.
    """

    events: tuple[str, ...]
    least_s: float = 0.0
    together_s: float | None = None
    victims_above: float | None = None


class Remedy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A knob that acts on the cause, with either a value or a method to compute the value."""

    knob: str
    why: str
    value: str | int | None = None
    compute: Compute | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.compute is None):
            raise ValueError(f"{self.knob} needs either value or compute")


class Symptom(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A possible cause of stutters.

    A stutter may begin up to `lag_s` after the cause. A cause with `consequence` can also be an effect of a stutter,
    and is named only for stutters that nothing else explains. `makes` lists causes that this cause brings about. If
    this cause overlaps most stutters of such an effect, ktrial names it before the effect. `figure` is the figure of a
    watched session that counts this cause, for trials of a remedy.
    """

    id: str
    name: str
    what: str
    sign: tuple[Sign, ...] = ()
    happening: tuple[Happening, ...] = ()
    lag_s: float = 0.0
    consequence: bool = False
    makes: tuple[str, ...] = ()
    figure: str | None = None
    remedy: tuple[Remedy, ...] = ()
    no_remedy: str | None = None

    def __post_init__(self) -> None:
        if not self.sign and not self.happening:
            raise ValueError(f"{self.id} needs a sign or a happening")
        if bool(self.remedy) == (self.no_remedy is not None):
            raise ValueError(f"{self.id} needs either a remedy or no_remedy")


class SymptomFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table of symptoms."""

    symptom: tuple[Symptom, ...]
