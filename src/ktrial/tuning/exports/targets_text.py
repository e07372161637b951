# SPDX-License-Identifier: Apache-2.0
"""The targets of `ktrial export` and the forms of settings that each can express, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ktrial.kit.tables import table
from ktrial.tuning.exports.model import FORMS

if TYPE_CHECKING:
    from ktrial.tuning.exporters import ExportTarget


def targets_text(targets: Iterable[ExportTarget], *, width: int) -> str:
    rows = [(target.name, ", ".join(form for form in FORMS if form in target.forms)) for target in targets]
    return table(("target", "can express"), rows, width=width, whole=1) + "\n"


def targets_json(targets: Iterable[ExportTarget]) -> dict[str, Any]:
    found = [
        {
            "target": target.name,
            "what": target.what,
            "next": target.next,
            "forms": {form: form in target.forms for form in FORMS},
        }
        for target in targets
    ]
    return {"schema": "ktrial.targets/1", "targets": found}
