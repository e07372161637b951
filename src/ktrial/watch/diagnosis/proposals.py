# SPDX-License-Identifier: Apache-2.0
"""Proposes settings against named causes on this machine, with values, price, evidence, and a trial that tests them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial

import msgspec
import numpy as np

from ktrial.kit.errors import BadInput, KtrialError
from ktrial.machine.ports import Machine
from ktrial.recordings.model import Recording, rate_of
from ktrial.trial.protocol.from_words import default_suite
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.plans.model import Change, ZramStep
from ktrial.tuning.plans.resolve import make_plan
from ktrial.watch.diagnosis.model import Cause, Diagnosis, Proposal
from ktrial.watch.diagnosis.symptoms import Remedy, Symptom
from ktrial.watch.diagnosis.values import Computed, group_cpu, group_memory, irq_away, zram_half
from ktrial.watch.watermark_model import MOST_SCALE, RESERVE, scale_for
from ktrial.watch.watermarks import WatermarkLayout, layout_here

#: The target lead time of kswapd at the recording's peak demand, and the largest share of memory to keep free for it.
_LEAD_S = 0.5
_MOST_KEPT = 0.1
_DEMAND = ("vmstat.pgalloc_*", "vmstat.pgscan_direct", "vmstat.pgsteal_direct")
_CLAIMS = 2
_ZRAM = "zram:disksize"
_GROUPS = "/sys/fs/cgroup"

#: Returns the words of `ktrial try` that measure the setting to try.
Measure = Callable[[str], tuple[str, ...]]


def with_proposals(
    diagnosis: Diagnosis, symptoms: Mapping[str, Symptom], recording: Recording, machine: Machine, catalog: Catalog
) -> tuple[Diagnosis, tuple[str, ...]]:
    """Return the diagnosis with proposals that would change something here, and why other remedies are left out."""
    found: list[Proposal] = []
    left_out: list[str] = []
    for cause in diagnosis.named:
        symptom = symptoms[cause.id]
        if symptom.no_remedy is not None:
            left_out.append(f"{symptom.name}: {symptom.no_remedy}")
        for remedy in symptom.remedy:
            try:
                word, computed = _word(remedy, recording, machine, catalog, diagnosis)
                # Nothing is applied. A dangerous proposal shows its price, and its command needs --yes-dangerous.
                plan, _ = make_plan(machine, catalog, (word,), allow_dangerous=remedy.compute == "group-memory")
            except KtrialError as error:
                left_out.append(f"{remedy.knob}: {error.message}")
                continue
            left_out += [f"{refusal.address}: {refusal.reason}" for refusal in plan.refusals]
            left_out += [f"{change.address}: {change.new_text} is already in force" for change in plan.same]
            left_out += [f"{change.address} is inert here: {change.inert}" for change in plan.changes if change.inert]
            why = remedy.why if computed is None else f"{remedy.why}: {computed.because}"
            measure = partial(_measure, symptom=symptom, recording=recording, computed=computed, catalog=catalog)
            found += [_proposal(cause, why, change, catalog, measure) for change in plan.changes if not change.inert]
            if plan.zram is not None:
                found.append(_zram_proposal(cause, why, plan.zram, catalog, measure))
    once = {one.knob: one for one in reversed(found)}
    kept = tuple(one for one in found if once[one.knob] is one)
    return msgspec.structs.replace(diagnosis, proposals=kept), tuple(dict.fromkeys(left_out))


def _proposal(cause: Cause, why: str, change: Change, catalog: Catalog, measure: Measure) -> Proposal:
    word = f"{change.address}={change.new_text}"
    risky = ("--yes-dangerous",) if change.risk == "dangerous" else ()
    line = ("ktrial", "try", word, *risky, *measure(word))
    return _proposal_of(
        cause, catalog.knobs[change.knob], (change.address, change.new_text, change.old_text), why, line
    )


def _zram_proposal(cause: Cause, why: str, step: ZramStep, catalog: Catalog, measure: Measure) -> Proposal:
    word = f"{_ZRAM}={step.size_bytes}"
    line = ("ktrial", "try", word, *measure(word))
    return _proposal_of(cause, catalog.knobs[_ZRAM], (_ZRAM, str(step.size_bytes), "none"), why, line)


def _proposal_of(
    cause: Cause, knob: Knob, change: tuple[str, str, str | None], why: str, try_line: tuple[str, ...]
) -> Proposal:
    """Build a proposal; `change` is the address, the new value and the current one."""
    address, value, now = change
    return Proposal(
        cause=cause.id,
        knob=address,
        value=value,
        now=now,
        why=why,
        price=knob.price,
        evidence=tuple(f"{claim.status}: {claim.claim}" for claim in knob.evidence[:_CLAIMS]),
        try_line=try_line,
    )


def _measure(
    word: str, *, symptom: Symptom, recording: Recording, computed: Computed | None, catalog: Catalog
) -> tuple[str, ...]:
    """Return the command that measures the effect.

    It runs the watched program if a figure counts the cause, otherwise a suite.
    """
    command = _command(recording)
    if symptom.figure is not None and command is not None:
        return ("--suite", "watch", "--primary", symptom.figure, "-p", f"program={shlex.join(command)}")
    try:
        return ("--suite", default_suite((word,), catalog))
    except BadInput:
        return ("--", *_command_line(command or ("YOUR-PROGRAM",), computed))


def _command(recording: Recording) -> tuple[str, ...] | None:
    """Return the watched command, or None if it is unknown or unprintable.

    A program can set its own name, and nobody should paste text that cannot be shown.
    """
    shown = recording.command and all(word.isprintable() for word in recording.command)
    return recording.command if shown else None


def _command_line(command: tuple[str, ...], computed: Computed | None) -> tuple[str, ...]:
    """Return the command, started in its control group if the setting is a limit of that group."""
    if computed is None or computed.start_in is None:
        return command
    place = shlex.quote(f"{_GROUPS}{computed.start_in}/cgroup.procs")
    return ("sh", "-c", f'echo $$ > {place} && exec "$@"', "sh", *command)


def _word(
    remedy: Remedy, recording: Recording, machine: Machine, catalog: Catalog, diagnosis: Diagnosis
) -> tuple[str, Computed | None]:
    """Return the setting to try, and how its value was computed if the recording determines the value."""
    knob = find_knob(remedy.knob, catalog.knobs)
    computed = _computed(remedy, knob, recording, machine, diagnosis)
    if computed is not None:
        return f"{computed.address}={computed.value}", computed
    return _from_what_is_in_force(remedy, knob, recording, machine), None


def _computed(
    remedy: Remedy, knob: Knob, recording: Recording, machine: Machine, diagnosis: Diagnosis
) -> Computed | None:
    """Return value and instance of a remedy that computes both from the recording, otherwise None."""
    match remedy.compute:
        case "group-memory":
            return group_memory(knob, recording, machine)
        case "group-cpu":
            return group_cpu(knob, recording, machine)
        case "irq-away":
            return irq_away(knob, recording, machine, diagnosis)
        case "zram-half":
            return zram_half(knob, machine)
        case _:
            return None


def _from_what_is_in_force(remedy: Remedy, knob: Knob, recording: Recording, machine: Machine) -> str:
    address = f"{knob.id}@{_instance(knob, recording)}" if knob.placeholders else knob.id
    if remedy.value is not None:
        return f"{address}={remedy.value}"
    if remedy.compute == "watermark-lead":
        return f"{address}={_watermark_scale(recording, layout_here(machine))}"
    state = observe(machine, [knob])[knob.id]
    reading = state.instances[0].reading if state.instances else None
    text = "" if reading is None or reading.data is None else reading.data.decode("ascii", "replace").strip()
    if not text.isdigit():
        lacking = "this machine lacks the knob" if reading is None else reading.unreadable
        raise BadInput(f"cannot compute a value ({lacking or f'the current value {text!r} is not a number'})")
    number = int(text)
    value = {"double": max(number * 2, 1), "half": number // 2, "zero": 0}[remedy.compute or "zero"]
    most = knob.value.max
    return f"{address}={value if most is None else min(value, int(most))}"


def _instance(knob: Knob, recording: Recording) -> str:
    """Return the slowest block device for a knob of block devices, otherwise every instance."""
    slow_s: dict[str, float] = {}
    for event in recording.events:
        if event.kind == "block-io" and event.device is not None:
            slow_s[event.device] = slow_s.get(event.device, 0.0) + (event.duration_s or 0.0)
    return max(slow_s, key=lambda device: slow_s[device]) if slow_s and "block" in knob.placeholders else "*"


def _watermark_scale(recording: Recording, layout: WatermarkLayout) -> int:
    """Return the scale for half a second of lead time at the recording's peak demand, within a tenth of memory."""
    memory_bytes = sum(zone.managed_pages for zone in layout.zones) * layout.page_bytes
    peaks: dict[str, float] = {}
    for name, series in recording.series.items():
        pattern = next((one for one in _DEMAND if fnmatchcase(name, one)), None)
        _, values = rate_of(series)
        if pattern is not None and np.isfinite(values).any():
            peaks[pattern] = peaks.get(pattern, 0.0) + float(np.nanmax(values))
    demand = next((peaks[pattern] for pattern in _DEMAND if pattern in peaks), 0.0) * layout.page_bytes
    wanted = max(demand * _LEAD_S, memory_bytes * 0.005)
    most = int(_MOST_KEPT / 2 * 10000)
    scale = scale_for(
        layout.zones, layout.settings[RESERVE], min(wanted, memory_bytes * _MOST_KEPT / 2), layout.page_bytes
    )
    return min(scale or MOST_SCALE, most)
