# SPDX-License-Identifier: Apache-2.0
"""Conversion of runs of the store and of foreign files to the runs of a comparison."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ktrial.bench.benchmark import DIRECTORY
from ktrial.bench.environment import that_counts
from ktrial.compare.arms import FILE, ComparedRun
from ktrial.kit.moment import NAMES, WALL, moment_of
from ktrial.kit.percentile import events_of
from ktrial.machine.gates import Reading
from ktrial.results.foreign import ForeignRun
from ktrial.results.model import StoredRun, StoredSession, stored_run, stored_session

#: Facts of a session's machine, by the key under which they are compared.
_FACTS = {
    "cpu": "cpu.model",
    "threads": "cpu.threads",
    "virtualisation": "virtualisation.kind",
    "governor": "cpufreq.governor",
    "power": "power.source",
    "kernel": "kernel.release",
}
#: Facts that are compared together, as `name value`.
_SETTINGS = (
    "cpu.microcode",
    "cpu.smt",
    "cpufreq.boost",
    "cpufreq.driver",
    "cpufreq.preference",
    "kernel.clocksource",
    "kernel.command_line",
    "kernel.preemption",
    "kernel.sched_ext_name",
    "kernel.tick_rate",
    "thp.enabled",
)
#: A folder created for a single run.
_PRIVATE = re.compile(r"/.*/work/run-[^/]+")
#: The fact that distinguishes machines with the same hardware.
_MACHINE = "os.machine"
_MEMORY_STEP_BYTES = 256 * 1024**2
#: Names that foreign files use, and the key under which ktrial compares them.
_ALIASES = {
    "argv": "command",
    "board": "board",
    "board_name": "board",
    "command": "command",
    "cpu": "cpu",
    "cpu_affinity": "cpus",
    "cpu_count": "threads",
    "cpu_model": "cpu",
    "cpu_model_name": "cpu",
    "cpufreq_governor": "governor",
    "cpus": "threads",
    "governor": "governor",
    "kernel": "kernel",
    "kernel_release": "kernel",
    "mem_total": "memory",
    "memory": "memory",
    "motherboard": "board",
    "nproc": "threads",
    "parameters": "parameters",
    "power": "power",
    "power_source": "power",
    "runtime": "runtime",
    "threads": "threads",
    "tool_version": "tool",
}
_HOSTS = ("hostname", "host", "machine")
#: Identifiers that a machine or an installation keeps for life.
_IDENTITIES = ("machine_id", "machine-id", "product_uuid", "dmi_uuid")
_TEMPERATURES = ("temp_start_c", "start_temperature_c", "temperature_c")
#: Readings and the names that foreign files use for them, best first.
_READINGS = {"temperature_c": _TEMPERATURES, "battery_percent": ("battery_percent", "battery_level", "battery")}
_EVENTS = ("events", "samples", "sample_count")
#: Attributes that identify a single run and say nothing about its arm.
_OF_A_RUN = frozenset(("run", "round", "session", "suite", "date", "temp_end_c", "metrics_collected", "ktrial_version"))


def from_store(session: StoredSession, run: StoredRun) -> ComparedRun | None:
    """Convert a run of the store; return None for a warm-up or a run that has not ended."""
    if run.warm_up or run.state == "running":
        return None
    if first_origin(session).startswith("import:"):
        document = run.document or {}
        foreign = ForeignRun(
            group=session.label or "",
            benchmark=run.benchmark,
            number=run.number,
            measurements=run.measurements,
            block=document.get("block"),
            part_of=document.get("part_of"),
            in_order=document.get("in_order", True),
            attributes=document.get("attributes") or {},
            failure=_failure(run),
        )
        made = _foreign(f"{session.session}/{run.number}", foreign, str(session.document.get("sha256")))
        return msgspec.structs.replace(made, void=run.state == "void")
    return _own(session, run)


def _own(session: StoredSession, run: StoredRun) -> ComparedRun:
    document = run.document or {}
    readings = readings_of(document)
    made = ComparedRun(
        name=f"{session.session}/{run.number}",
        benchmark=run.benchmark,
        measurements=run.measurements if run.state == "ok" else (),
        failure=_failure(run),
        void=run.state == "void",
        clocks=_clocks(session.boot_id, run),
        tool=document.get("tool"),
        boot=session.boot_id,
        session=session.session,
        machine=_fact(session, _MACHINE),
        known={**_of_session(session), **_of_run(document), **_read(readings)},
        readings=readings,
        events=events_of(document.get("details") or {}, [one.outcome for one in run.measurements]),
    )
    return _of_trial(made, run, document["trial"]) if document.get("trial") else made


def _of_trial(made: ComparedRun, run: StoredRun, place: Mapping[str, Any]) -> ComparedRun:
    """Add what a trial records about its run: arm, block and boot."""
    kernel = {"kernel": str(place["kernel_release"])} if place.get("kernel_release") else {}
    return msgspec.structs.replace(
        made,
        trial_arm=str(place["arm"]),
        block=f"block {place['block']} of {place['trial']}",
        boot=place.get("boot_id"),
        clocks=_clocks(place.get("boot_id"), run),
        known={**made.known, **kernel},
    )


def first_origin(session: StoredSession) -> str:
    """Return the origin of a session; for an unpacked bundle, the origin of the original session."""
    came = session.document.get("bundle") if session.origin == "bundle" else None
    return str(came["origin"]) if came else session.origin


def from_file(file: str, digest: str, run: ForeignRun) -> ComparedRun:
    """Convert a run of a file; a complete record of ktrial's own is treated like a run of the store."""
    if run.record is not None:
        return _own(stored_session(run.record.session, run.record.started_unix_ms), stored_run(run.record))
    return _foreign(f"{file}#{run.number}", run, digest)


def readings_of(document: Mapping[str, Any]) -> dict[str, Reading]:
    """Return the conditions that were recorded before and during a run, by the gates' names.

    Old records hold the temperature only.
    """
    conditions = document.get("conditions") or {}
    found: dict[str, Reading] = {
        **(conditions.get("readings_before") or {}),
        **(conditions.get("readings_during") or {}),
    }
    for one in conditions.get("before") or ():
        if one.get("name") == "temperature":
            found.setdefault("temperature_c", one["value"])
    return found


def _read(readings: Mapping[str, Reading]) -> dict[str, str]:
    """Return the keys for comparison whose values come from the run's own readings."""
    named = (("governor", readings.get("governor")), ("power", readings.get("power_source")))
    return {key: str(value) for key, value in named if value is not None}


def _failure(run: StoredRun) -> str | None:
    if run.state in ("ok", "void"):
        return None
    if run.state == "interrupted":
        return "interrupted"
    return str((run.document or {}).get("failure") or "failed")


def _clocks(boot_id: str | None, run: StoredRun) -> dict[str, float]:
    clocks = {WALL: float(run.started_unix_ms)}
    monotonic = (run.document or {}).get("started_monotonic_ns")
    if boot_id is not None and monotonic is not None:
        clocks[f"boot {boot_id}"] = float(monotonic)
    return clocks


def _fact(session: StoredSession, name: str) -> str | None:
    fact = (session.document.get("machine") or {}).get(name)
    value = fact.get("value") if isinstance(fact, dict) else None
    return None if value is None else str(value)


def _of_session(session: StoredSession) -> dict[str, str]:
    machine = session.document.get("machine") or {}
    facts = {name: fact.get("value") for name, fact in machine.items() if isinstance(fact, dict)}
    known = {key: str(facts[name]) for key, name in _FACTS.items() if facts.get(name) is not None}
    if session.kernel_release is not None:
        known["kernel"] = session.kernel_release
    settings = [f"{name} {facts[name]}" for name in _SETTINGS if facts.get(name) is not None]
    if settings:
        known["settings"] = ", ".join(settings)
    memory = facts.get("memory.total")
    if isinstance(memory, int):
        known["memory"] = f"{round(memory / _MEMORY_STEP_BYTES) * _MEMORY_STEP_BYTES / 1024**3:g} GiB"
    if facts.get("os.id") is not None:
        known["system"] = f"{facts['os.id']} {facts.get('os.version') or ''}".strip()
    return known


def _of_run(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what ran, with a placeholder for each folder that only this run has."""
    told = {key: text for key, text in _facts_of_foreign(document) if text}
    for folder in _own_folders(document):
        told = {key: text.replace(folder, DIRECTORY) for key, text in told.items()}
    return told


def _own_folders(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the folders that only this run has; for a user's command, this is the folder of its temporary files."""
    temporary = (document.get("environment") or {}).get("TMPDIR")
    if temporary and _PRIVATE.fullmatch(temporary):
        yield temporary
    if document.get("directory"):
        yield document["directory"]


def _facts_of_foreign(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "tool", str(document.get("tool_version") or "")
    load = document.get("agent_load")
    yield "command", f"load {load.get('name')}" if load else shlex.join(map(str, document.get("argv") or ()))
    yield "parameters", _pairs(document.get("parameters"))
    if (cpus := document.get("cpus")) is not None:
        yield "cpus", ",".join(map(str, cpus))
    if document.get("background"):
        background = document["background"]
        yield "load", f"{shlex.join(map(str, background.get('argv') or ()))} with {background.get('workers')} workers"
    if document.get("container"):
        box = document["container"]
        yield "runtime", f"{box.get('runtime')} {box.get('runtime_version')}, image {box.get('image_id')}"
    yield "environment", _pairs(that_counts(document.get("environment") or {}))


def _pairs(table: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted((table or {}).items()))


def _foreign(name: str, run: ForeignRun, sha256: str) -> ComparedRun:
    told = {attribute.lower(): text for attribute, text in run.attributes.items()}
    moment = moment_of(told)
    clocks = {f"{FILE}{sha256}": float(run.number), **dict([] if moment is None else [moment])}
    readings = {name: value for name in _READINGS if (value := _reading(name, told)) is not None}
    of_readings = {spelled for name in readings for spelled in _READINGS[name]}
    known: dict[str, str] = {}
    other: dict[str, str] = {}
    for attribute, text in run.attributes.items():
        key = _ALIASES.get(attribute.lower())
        if key is not None:
            known.setdefault(key, text)
        elif attribute.lower() not in (
            *_HOSTS,
            *_IDENTITIES,
            *_TEMPERATURES,
            *of_readings,
            "boot_id",
            *_EVENTS,
            *_OF_A_RUN,
            *(() if moment is None else NAMES),
        ):
            other[attribute] = text
    identity = next((_hash_identity(told[one]) for one in _IDENTITIES if told.get(one)), None)
    host = next((told[host] for host in _HOSTS if host in told), None)
    events = next((told[name] for name in _EVENTS if name in told), "")
    return ComparedRun(
        name=name,
        benchmark=run.benchmark,
        measurements=run.measurements,
        failure=run.failure,
        part_of=None if run.part_of is None else f"{name.rpartition('#')[0] or name.rpartition('/')[0]}, {run.part_of}",
        clocks=clocks if run.in_order else {},
        tool=told.get("tool"),
        block=run.block,
        boot=told.get("boot_id"),
        machine=identity or host,
        by_host_name=identity is None and host is not None,
        known=known,
        other=other,
        readings=readings,
        events=dict.fromkeys((one.outcome for one in run.measurements), int(events)) if events.isdecimal() else {},
    )


def _hash_identity(identity: str) -> str:
    """Return a name for a machine that does not disclose its identity."""
    return f"machine {hashlib.sha256(identity.strip().lower().encode()).hexdigest()[:12]}"


def _reading(name: str, told: Mapping[str, str]) -> float | None:
    for spelled in _READINGS[name]:
        try:
            return float(told[spelled].removesuffix("%"))
        except (KeyError, ValueError):
            continue
    return None
