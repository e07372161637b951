# SPDX-License-Identifier: Apache-2.0
"""What a stutter can come from, and what in a recording would show it: the table `catalog/symptoms.toml`.

When it is read the knobs that it names are checked: they are there and take the values.
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
    """Return the table of causes by id, in its order. Raises BadInput."""
    found: dict[str, Symptom] = {}
    for symptom in read_toml(path, SymptomFile).symptom:
        if symptom.id in found:
            raise BadInput(f"two symptoms are called {symptom.id}", file=str(path), hint="rename one of them")
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
            raise BadInput(f"{symptom.id} makes {unknown[0]}, which is not a symptom", file=str(path))
    return found


#: How a value is computed for the machine and the recording.
Compute = Literal["watermark-lead", "group-memory", "group-cpu", "irq-away", "zram-half", "double", "half", "zero"]


class Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A series that shows a cause at work while it lies beyond a limit. One of the limits is given.

    `over` names a neighbour (the last part of its name) that the series is a share of.

    `series` are patterns, each match is looked at by itself. `above` and `below` are values in the series' unit (growth
    a second of a counter); `times_usual` and `share_of_usual` are multiples of its median over the recording.
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
            raise ValueError("a sign has one limit: above, below, times_usual or share_of_usual")


class Happening(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Events that show a cause at work; shorter ones than `least_s` are passed over.

    Events of one thread with no longer pause than `together_s` between them are one: their times are added up. Where
    there is some event for more than the share `victims_above` of the recording, those of the frame thread alone count.
    """

    events: tuple[str, ...]
    least_s: float = 0.0
    together_s: float | None = None
    victims_above: float | None = None


class Remedy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A knob that acts on the cause: its value, or how it is computed for the machine."""

    knob: str
    why: str
    value: str | int | None = None
    compute: Compute | None = None

    def __post_init__(self) -> None:
        """A value or a way to it."""
        if (self.value is None) == (self.compute is None):
            raise ValueError(f"{self.knob}: either value or compute")


class Symptom(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A cause. `lag_s` is how long after it a stutter may still begin.

    `consequence`: it also follows from a stutter, so it is named only for stutters that nothing else explains.
    `makes`: causes that it brings about, which are named only for stutters that it does not explain.
    `figure`: the figure of a watched session that counts it, by which a trial tells whether it became less.
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
        """Something must show it, and something must be said of what to do."""
        if not self.sign and not self.happening:
            raise ValueError(f"nothing shows {self.id}")
        if bool(self.remedy) == (self.no_remedy is not None):
            raise ValueError(f"{self.id}: either a remedy or why there is none")


class SymptomFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table."""

    symptom: tuple[Symptom, ...]
