# SPDX-License-Identifier: Apache-2.0
"""Who changed a knob under the feet of a trial, where that can be known."""

from __future__ import annotations

from ktrial.kit.errors import AgentError
from ktrial.machine.ports import Machine
from ktrial.trial.arms.arms import Drift
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.origin.why import origins


def writer_of(machine: Machine, catalog: Catalog, drift: Drift, own: int | None) -> str | None:
    """Another transaction of ktrial, or the file or daemon that names the value which is there now."""
    return _transaction(machine, drift, own) or _source(machine, catalog, drift)


def _transaction(machine: Machine, drift: Drift, own: int | None) -> str | None:
    try:
        told = machine.request("status")["transactions"]
    except AgentError:
        return None
    for one in reversed(told):
        paths = {step["path"] for step in one["steps"]}
        if one["transaction"] != own and one["state"] == "applied" and drift.path in paths:
            return f"transaction {one['transaction']} of ktrial set it ({one['title']})"
    return None


def _source(machine: Machine, catalog: Catalog, drift: Drift) -> str | None:
    knob = catalog.knobs.get(drift.address.partition("@")[0])
    if knob is None or drift.now is None:
        return None
    found = origins(machine, catalog, [knob])
    words = [one.set_by for one in found if one.path == drift.path and one.set_by is not None]
    return f"{words[0].place} names this value" if words else f"`ktrial why {drift.address}` looks for who did"
