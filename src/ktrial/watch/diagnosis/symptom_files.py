# SPDX-License-Identifier: Apache-2.0
"""Reads `symptoms.toml` and checks that the knobs it names are there and take the values it names."""

from __future__ import annotations

from pathlib import Path

from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.toml_files import BUILT_IN, read_toml
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.value import kernel_text
from ktrial.watch.diagnosis.symptoms import Symptom, SymptomFile


def load_symptoms(catalog: Catalog, path: Path = BUILT_IN / "symptoms.toml") -> dict[str, Symptom]:
    """The table of causes by id, in its order. Raises BadInput."""
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
            raise BadInput(f"{symptom.id} makes {unknown[0]}, which is no symptom", file=str(path))
    return found
