# SPDX-License-Identifier: Apache-2.0
"""The whole tunable state of a machine at one moment: `ktrial.state/1`.

Equal states have equal documents and thus equal digests, because a state contains no time, host, boot or changing
counter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.json_strict import decode_as
from ktrial.machine.facts import Fact, FactBook

SCHEMA: Literal["ktrial.state/1"] = "ktrial.state/1"
COMMAND_LINE = "kernel.command_line"

FACTS = (
    *("kernel.release", "kernel.version", "kernel.config_hash", COMMAND_LINE, "kernel.tick_rate"),
    *("kernel.preemption", "kernel.scheduler", "kernel.scheduler_version", "kernel.sched_ext_state"),
    *("kernel.sched_ext_name", "kernel.taints", "kernel.lockdown", "kernel.clocksource", "kernel.modules"),
    *("cpu.microcode", "cpu.mitigations", "cpufreq.driver", "cpuidle.driver", "services.active"),
)
"""Facts that belong to the tunable state and are not files of the kernel."""


class StateValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value of a state: a text, words, or the reason why it is absent or unreadable. Exactly one field is set."""

    text: str | None = None
    words: tuple[str, ...] | None = None
    absent: str | None = None
    unreadable: str | None = None


class MachineState(msgspec.Struct, frozen=True, kw_only=True):
    """The tunable state of one machine.

    `knobs` maps addresses to paths, `files` paths to their values, and `left_out` paths to the reason. `hidden`
    maps folders that this session could not read to the reason.
    """

    facts: Mapping[str, StateValue]
    knobs: Mapping[str, str]
    files: Mapping[str, StateValue]
    left_out: Mapping[str, str] = {}
    hidden: Mapping[str, str] = {}
    schema: Literal["ktrial.state/1"] = SCHEMA

    def canonical(self) -> bytes:
        return msgspec.json.encode(self, order="sorted")

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.canonical()).hexdigest()


def parse_state(data: bytes, file: str) -> MachineState:
    """Return a saved state. Raise BadInput if `data` is not a state."""
    try:
        state = decode_as(data, MachineState)
    except msgspec.DecodeError as error:
        raise BadInput(
            f"not a saved state: {error}", file=file, hint="use a file that `ktrial state save` wrote"
        ) from None
    values = {**state.facts, **state.files}
    for name, value in values.items():
        if sum(one is not None for one in (value.text, value.words, value.absent, value.unreadable)) != 1:
            raise BadInput(
                f"{name}: expected exactly one of text, words, absent, unreadable",
                file=file,
                hint="save the state again",
            )
    return state


def file_text(data: bytes) -> str:
    """Return the text of a file without trailing white space; bytes that are not UTF-8 are escaped."""
    return data.decode("utf-8", "backslashreplace").rstrip()


def fact_values(facts: FactBook) -> dict[str, StateValue]:
    """Return the facts that belong to the state; a table becomes one value per entry."""
    found: dict[str, StateValue] = {}
    for name in FACTS:
        fact = facts.get(name)
        if fact is None:
            found[name] = StateValue(unreadable="was not asked for")
        elif fact.known and isinstance(fact.value, Mapping):
            found |= {f"{name}.{key}": StateValue(text=_text(value)) for key, value in fact.value.items()}
        else:
            found[name] = _value(fact)
    return found


def _value(fact: Fact) -> StateValue:
    if fact.absent is not None:
        return StateValue(absent=fact.absent)
    if fact.unknown is not None:
        return StateValue(unreadable=fact.unknown)
    if isinstance(fact.value, list | tuple):
        return StateValue(words=tuple(sorted({_text(word) for word in fact.value})))
    return StateValue(text=_text(fact.value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
