# SPDX-License-Identifier: Apache-2.0
"""Knobs of the user's own catalog files, which the agent writes only after root has added them to the machine."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ktrial.machine.ports import Machine
from ktrial.machine.reading import Barred, InstanceState, KnobState
from ktrial.machine.transactions import checked

#: Folder on the machine where root adds knobs.
ADDED = "/etc/ktrial/knobs.d"
#: Maximum number of steps in one plan.
_MOST_STEPS = 4096


def with_barred(machine: Machine, states: Mapping[str, KnobState], own: Mapping[str, str]) -> dict[str, KnobState]:
    """Return the states; mark each instance of a knob in `own` that the agent refuses to write, with the reason."""
    mine = [state for name, state in states.items() if name in own]
    forbidden = dict(_forbidden(machine, dict.fromkeys(one.path for state in mine for one in state.instances)))

    def marked(instance: InstanceState, file: str) -> InstanceState:
        why = forbidden.get(instance.path)
        if why is None:
            return instance
        return msgspec.structs.replace(instance, barred=Barred(why, install_line(file) if ADDED in why else None))

    return {
        **states,
        **{
            state.knob: msgspec.structs.replace(
                state, instances=tuple(marked(one, own[state.knob]) for one in state.instances)
            )
            for state in mine
        },
    }


def _forbidden(machine: Machine, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each path that the agent refuses to write, and its reason, by letting it check a plan."""
    steps = [{"kind": "write", "path": path, "new": "0", "verify": "exact"} for path in paths]
    for start in range(0, len(steps), _MOST_STEPS):
        plan = {"schema": "ktrial.plan/2", "steps": steps[start : start + _MOST_STEPS]}
        for step in checked(machine, plan):
            if step.outcome == "forbidden":
                yield step.path, step.message


def install_line(file: str) -> str:
    """Return the sudo command that copies a file of knobs to the folder in which root adds knobs."""
    return f"sudo install -D -m 644 {shlex.quote(file)} {shlex.quote(f'{ADDED}/{posixpath.basename(file)}')}"
