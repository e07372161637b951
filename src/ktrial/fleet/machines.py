# SPDX-License-Identifier: Apache-2.0
"""Looks at the machines of a fleet through Ansible: begins their trials, fetches finished blocks, and stops trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktrial.fleet.ansible import Ansible, TaskResult
from ktrial.fleet.conduct import MachineLook, Sight
from ktrial.fleet.file import FleetTrial
from ktrial.fleet.log import FleetBegan
from ktrial.kit.errors import GuardTripped, KtrialError
from ktrial.trial.protocol.file import trial_text

#: The facts that every trial of a fleet records about its machines.
ALWAYS = ("cpu.architecture", "cpu.model", "cpu.threads", "kernel.release", "virtualisation.kind")
#: How many times to ask a machine for its facts, and the seconds in between.
_ASKS, _ASK_AGAIN_S = 3, 5.0


class AnsibleMachines:
    """The machines of a fleet's trial; implements `fleet.conduct.Looking`. `folder` gets their trial files."""

    def __init__(
        self,
        ansible: Ansible,
        began: FleetBegan,
        folder: Path,
        *,
        fence: int,
        find_trial: Callable[[str], str | None],
    ) -> None:
        self._ansible = ansible
        self._began = began
        self._folder = folder
        self._fence = fence
        self._find_trial = find_trial

    def look(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        yield from self._task({one.machine.host: self._arguments(one) for one in looks})

    def stop(self, looks: Sequence[MachineLook]) -> Iterator[Sight | None]:
        names = {one.machine.host: one.trial or self._find_trial(self._name(one)) for one in looks}
        arguments = {host: {"state": "stopped", "name": name} for host, name in names.items() if name is not None}
        if arguments:
            yield from self._task(arguments)

    def leave_out(self, look: MachineLook) -> None:
        """Do nothing: no local process belongs to the machine, which restores itself when its plan is over."""

    def _name(self, look: MachineLook) -> str:
        """Return the name of a machine's trial, by its place in the list."""
        return f"{self._began.fleet}.{look.place + 1}"

    def _arguments(self, look: MachineLook) -> dict[str, Any]:
        """Return the arguments of the task. Begin a trial unless the store has it already.

        A coordinator may have died after the trial began.
        """
        name = self._name(look)
        known = look.trial or self._find_trial(name)
        if known is not None:
            return {"state": "collected", "name": known, "when_idle": self._began.when_idle}
        trial: FleetTrial = self._began.trial
        path = self._folder / f"{name}.toml"
        path.write_text(trial_text(trial.for_machine(name, look.machine.seed, look.machine.arm)), encoding="utf-8")
        return {"state": "started", "file": str(path), "name": name, "when_idle": self._began.when_idle}

    def _task(self, arguments: Mapping[str, Mapping[str, Any]]) -> Iterator[Sight | None]:
        given = {host: {"fence": self._fence, **one} for host, one in arguments.items()}
        for result in self._ansible.run("trial", given):
            yield None if result is None else sight_of(result)


def sight_of(result: TaskResult) -> Sight:
    """Return what the task's result shows about the machine."""
    content = result.content
    if result.state == "unreachable":
        return Sight(result.host, "unreachable", message=result.message)
    if result.state == "failed":
        # A passed limit ends the trial; the machine has restored itself.
        tripped = content.get("rc") == GuardTripped.exit_status
        if content.get("kind") == "busy":
            # A coordinator that died may have left a running step there, which ends by itself.
            return Sight(result.host, "unreachable", message=result.message)
        may_pass = _may_pass(content.get("rc"))
        return Sight(result.host, "failed", message=result.message, guard=tripped, may_pass=may_pass)
    in_use = content.get("in_use")
    return Sight(
        result.host,
        content["state"] if in_use is None else "in-use",
        trial=content.get("trial"),
        blocks=content.get("blocks") or 0,
        next_look_s=content.get("next_look_s"),
        message=None if in_use is None else f"in use: {in_use}",
    )


def _may_pass(status: int | None) -> bool:
    """Return whether a program may succeed later, because its environment failed or a signal ended it."""
    return status is not None and (status < 0 or status == KtrialError.exit_status)


def facts_of(
    ansible: Ansible, hosts: Mapping[str, Mapping[str, Any]], names: Sequence[str], sleep: Callable[[float], None]
) -> Iterator[tuple[str, Mapping[str, str] | None, str] | None]:
    """Yield each host with the facts in `names` as text, or with None and the reason; in between, yield None.

    A name `inventory.NAME` is a variable of the inventory. ktrial asks an unreachable machine again after a while.
    """
    wanted = [name for name in dict.fromkeys((*ALWAYS, *names)) if not name.startswith("inventory.")]
    left = [*hosts]
    for ask in range(_ASKS):
        if ask:
            sleep(_ASK_AGAIN_S)
        asked, left = left, []
        for result in ansible.run("facts", {host: {"prefixes": wanted} for host in asked}):
            if result is None:
                yield None
            elif result.state == "ok":
                yield result.host, _facts_in(result, wanted, names, hosts[result.host]), ""
            elif ask < _ASKS - 1 and (result.state == "unreachable" or _may_pass(result.content.get("rc"))):
                left.append(result.host)
            else:
                yield result.host, None, result.message
        if not left:
            return


def _facts_in(
    result: TaskResult, wanted: Sequence[str], names: Sequence[str], variables: Mapping[str, Any]
) -> dict[str, str]:
    known = result.content.get("ansible_facts", {}).get("ktrial", {})
    found = {name: _text(known[name]) for name in wanted if name in known}
    for name in names:
        key = name.removeprefix("inventory.")
        if key != name and key in variables:
            found[name] = _text(variables[key])
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
