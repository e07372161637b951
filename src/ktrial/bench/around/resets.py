# SPDX-License-Identifier: Apache-2.0
"""Bring caches, swap and unwritten files into the same state before each run, if the suite asks for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from ktrial.bench.benchmark import Invocation, check_exit
from ktrial.bench.record import PreparedRun
from ktrial.bench.run.ports import Executor, run_or_stop
from ktrial.bench.suite import Between
from ktrial.kit.errors import AgentError, BadRun, KtrialError
from ktrial.kit.units import show_bytes
from ktrial.machine.ports import Machine
from ktrial.machine.transactions import Applied, decode_reply, revert

#: Share of the available memory that swapped-out memory may take when it comes back.
_ROOM = 0.8
_SYNC_LIMIT_S = 300.0
_MEMINFO = "/proc/meminfo"


class Resets:
    """The resets of a suite; swap and caches need the root session `root`."""

    def __init__(self, between: Between, executor: Executor, root: Machine | None) -> None:
        self._executor = executor
        self._root = root
        steps: list[tuple[bool, Literal["sync", "swap", "caches"], Callable[[], str]]] = [
            (between.sync, "sync", self._sync),
            (between.reset_swap, "swap", self._swap),
            (between.drop_caches, "caches", self._caches),
        ]
        self._steps = [(name, step) for wanted, name, step in steps if wanted]

    def carry_out(self) -> tuple[PreparedRun, ...]:
        """Carry out the resets until a reset fails; return their results."""
        done: list[PreparedRun] = []
        for name, step in self._steps:
            try:
                done.append(PreparedRun(reset=name, ok=True, result=step()))
            except (AgentError, BadRun) as error:
                done.append(PreparedRun(reset=name, ok=False, result=_with_step(error)))
                break
        return tuple(done)

    def _sync(self) -> str:
        check_exit(run_or_stop(self._executor, Invocation(argv=("sync",), limit_s=_SYNC_LIMIT_S)))
        return "files were written back"

    def _swap(self) -> str:
        """Turn swap off and on again in one transaction, so that the agent restores it even after a crash."""
        root = self._as_root()
        facts = root.facts(("swap.devices", "memory.available"))
        if not facts["swap.devices"].known:
            raise BadRun(
                f"the swap areas are unknown ({facts['swap.devices'].why_missing})",
                hint="leave out reset_swap in the suite",
            )
        used = sorted(
            (area for area in facts.records("swap.devices") if area["used_bytes"]), key=lambda area: area["priority"]
        )
        if not used:
            return "nothing was swapped out"
        wanted = sum(area["used_bytes"] for area in used)
        room = facts.value("memory.available")
        if room is None:
            raise BadRun("the available memory is unknown", hint="leave out reset_swap in the suite")
        if wanted > room * _ROOM:
            raise BadRun(
                f"{show_bytes(wanted)} are swapped out, too much for the {show_bytes(room)} of available memory",
                hint="free some memory",
            )
        names = ", ".join(area["name"] for area in used)
        plan = {
            "schema": "ktrial.plan/2",
            "title": f"reset of swap: {names}",
            "lease": {"kind": "while-session"},
            "steps": [_off_and_on(area) for area in used],
        }
        applied = decode_reply("apply", root.request("apply", plan=plan), Applied)
        if applied.state != "applied":
            raise BadRun(
                "; ".join(step.message for step in applied.steps if step.message) or "swapoff failed",
                hint="leave out reset_swap in the suite",
            )
        reverted = revert(root, applied.transaction)
        if reverted.state != "reverted":
            said = "; ".join(step.message for step in reverted.steps if step.message)
            raise BadRun(f"swap is off and cannot be turned on ({said})", hint="run `ktrial recover`")
        return f"{show_bytes(wanted)} came back from {names}"

    def _caches(self) -> str:
        root = self._as_root()
        before = _cached(root)
        root.request("drop_caches")
        return f"page cache {before}, then {_cached(root)}"

    def _as_root(self) -> Machine:
        assert self._root is not None, "a suite with such a reset is given a root session"
        return self._root


def _with_step(error: KtrialError) -> str:
    return f"{error.message}; next: {error.hint}" if error.hint else error.message


def _off_and_on(area: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step for a swap area. Undoing all steps in reverse order restores the kernel's ranks of the areas."""
    ranked = ["-p", str(area["priority"])] if area["priority"] >= 0 else []
    return {"kind": "run", "do": ["swapoff", area["name"]], "undo": ["swapon", *ranked, area["name"]]}


def _cached(machine: Machine) -> str:
    """Return the size of the page cache as text."""
    reading = machine.read((_MEMINFO,))[_MEMINFO]
    text = (reading.text or "") if reading is not None else ""
    sizes = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Cached:")]
    return " ".join(sizes[0].split()) if sizes else "of unknown size"
