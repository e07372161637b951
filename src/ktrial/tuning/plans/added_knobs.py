# SPDX-License-Identifier: Apache-2.0
"""Knobs that are not built in: the agent writes them where root has added them to the machine, and nowhere else."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ktrial.machine.ports import Machine
from ktrial.machine.reading import Barred, InstanceState, KnobState
from ktrial.machine.transactions import checked

#: Where root adds knobs, on the machine that they are written on.
ADDED = "/etc/ktrial/knobs.d"
#: A plan has no more steps.
_MOST_STEPS = 4096


def with_barred(machine: Machine, states: Mapping[str, KnobState], own: Mapping[str, str]) -> dict[str, KnobState]:
    """Return the states; of knobs of `own`, in their files, every instance that the agent would not write says why."""
    mine = [state for name, state in states.items() if name in own]
    paths = dict.fromkeys(path for state in mine for path in _paths(state))
    forbidden = dict(_forbidden(machine, paths))
    marked = {state.knob: _marked(state, forbidden, own[state.knob]) for state in mine}
    return {**states, **marked}


def _paths(state: KnobState) -> Iterator[str]:
    return (instance.path for instance in state.instances)


def _forbidden(machine: Machine, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield paths that the agent does not write, with its reason: asked with a plan that is not carried out."""
    steps = [{"kind": "write", "path": path, "new": "0", "verify": "exact"} for path in paths]
    for start in range(0, len(steps), _MOST_STEPS):
        plan = {"schema": "ktrial.plan/2", "steps": steps[start : start + _MOST_STEPS]}
        for step in checked(machine, plan):
            if step.outcome == "forbidden":
                yield step.path, step.message


def _marked(state: KnobState, forbidden: Mapping[str, str], file: str) -> KnobState:
    def one(instance: InstanceState) -> InstanceState:
        why = forbidden.get(instance.path)
        return instance if why is None else msgspec.structs.replace(instance, barred=_barred(why, file))

    return msgspec.structs.replace(state, instances=tuple(map(one, state.instances)))


def _barred(why: str, file: str) -> Barred:
    return Barred(why, install_line(file) if ADDED in why else None)


def install_line(file: str) -> str:
    """Return the command with which root adds the knobs of a file."""
    return f"sudo install -D -m 644 {shlex.quote(file)} {shlex.quote(f'{ADDED}/{posixpath.basename(file)}')}"
