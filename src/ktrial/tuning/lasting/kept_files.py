# SPDX-License-Identifier: Apache-2.0
"""What ktrial keeps on a machine, according to its journal and the files."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.kit.errors import Refused
from ktrial.kit.json_bytes import read_bytes
from ktrial.machine.ports import Machine
from ktrial.machine.transactions import UNFINISHED, Journaled, Status, checked
from ktrial.tuning.lasting.kept_text import read_kept
from ktrial.tuning.lasting.model import DRIFT_TIMER, FORMS, PLACES, SHARED_FORMS, Form, KeptFile, LastingEntry
from ktrial.tuning.lasting.scheduler_files import is_ours

_FORM_OF = {path: form for form, path in PLACES.items()}


def is_kept(transaction: Journaled) -> bool:
    """Return whether a transaction wrote or removed a kept file and has not been undone."""
    in_force = transaction.state in {"applied", UNFINISHED}
    return in_force and any(step.path in _FORM_OF for step in transaction.steps)


def is_lasting(transaction: Journaled) -> bool:
    """Return whether a transaction keeps settings or the timer of `ktrial drift`, and has not been undone."""
    in_force = transaction.state in {"applied", UNFINISHED}
    return is_kept(transaction) or (in_force and any(step.path == DRIFT_TIMER for step in transaction.steps))


def kept_transactions(status: Status) -> tuple[Journaled, ...]:
    """Return the transactions that keep settings, the newest first."""
    found = (one for one in status.transactions if is_kept(one))
    return tuple(sorted(found, key=lambda one: -one.transaction))


def kept_files(machine: Machine, status: Status, *, to_write: bool = False) -> dict[Form, KeptFile]:
    """Return the files that ktrial keeps now.

    With `to_write`, raise Refused for an existing file that the journal lacks.
    """
    texts: dict[Form, str] = {}
    for transaction in reversed(kept_transactions(status)):
        for step in transaction.steps:
            form = _FORM_OF.get(step.path)
            if form is not None:
                texts[form] = "" if step.new is None else read_bytes(step.new).decode(errors="replace")
    present = _present(machine)
    found: dict[Form, KeptFile] = {}
    for form in FORMS:
        now = present.get(form)
        if form in SHARED_FORMS and not is_ours(texts.get(form, "")):
            continue
        if texts.get(form):
            found[form] = KeptFile(form, texts[form], now)
        elif now is not None and to_write:
            raise Refused(
                f"cannot keep settings in {PLACES[form]}: ktrial did not write this file",
                hint="rename this file",
            )
    return found


def _present(machine: Machine) -> dict[Form, str]:
    """Return the texts of the existing kept files, also in folders that only root may read."""
    steps = [{"kind": "file", "path": path, "holds": None} for form, path in PLACES.items() if form not in SHARED_FORMS]
    told = checked(machine, {"schema": "ktrial.plan/2", "steps": steps})
    found = {_FORM_OF[one.path]: read_bytes(one.now) for one in told if one.now is not None}
    # If a path cannot be written, the plan does not say what it holds.
    refused = [one.path for one in told if one.now is None and one.outcome == "refused"]
    refused += [PLACES[form] for form in SHARED_FORMS]
    for path, reading in machine.read(refused).items():
        if reading is not None and reading.data is not None:
            found[_FORM_OF[path]] = reading.data
    return {form: data.decode(errors="replace") for form, data in found.items()}


def kept_entries(files: Mapping[Form, KeptFile]) -> tuple[LastingEntry, ...]:
    return tuple(entry for file in files.values() for entry in read_kept(file.form, file.text))
