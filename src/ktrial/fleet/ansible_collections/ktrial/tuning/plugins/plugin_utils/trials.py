# SPDX-License-Identifier: Apache-2.0
"""Carries out the module trial: one step of a trial whose blocks the machine runs by itself."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .program import Ktrial, ProgramAnswer, TaskFailed

_STEP = ("--unattended", "--turn", "--json")
#: Exit status of a trial that ended because it tripped a guard.
_GUARD_TRIPPED = 3


def step_trial(ktrial: Ktrial, given: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    """Carry out one step of a trial: start, watch or stop it, or fetch finished runs and send the next plan."""
    state = given["state"]
    if state == "watched":
        return _watch(ktrial, given, writes=writes)
    name = given["name"] or (_name_of(given["file"]) if given["file"] else None)
    # A store may be shared, so only trials with this name are read.
    summary = newest(ktrial.run("trial", "list", "--json", str(name)).document["trials"], name)
    if summary is None:
        if state != "started":
            raise TaskFailed(f"unknown trial: {name!r}", "start the trial first, with `state: started`")
        return _start(ktrial, given, str(name), writes=writes)
    if state == "started" or summary["ended"] is not None:
        return _as_stored(summary)
    trial = str(summary["trial"])
    if not writes:
        return {"changed": True, "trial": trial}
    if state == "collected":
        return _step(ktrial, ktrial.run("trial", "resume", *_options(given), trial, accepts=(0, 3)), summary)
    return {"changed": True, "trial": trial, "state": "stopped", "notes": ktrial.run("trial", "stop", trial).notes}


def _start(ktrial: Ktrial, given: Mapping[str, Any], name: str, *, writes: bool) -> dict[str, Any]:
    if given["file"] is None:
        raise TaskFailed("the task names no protocol file", "set `file` to the trial's file on the controller")
    if not writes:
        return {"changed": True, "trial": name}
    return _step(ktrial, ktrial.run("trial", "run", *_options(given), given["file"], accepts=(0, 3)))


def _watch(ktrial: Ktrial, given: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    """Start or resume a live trial in a process of its own, which ends with the coordinator."""
    if not writes:
        return {"changed": True}
    words = ["run", given["file"]] if given["file"] else ["resume", given["name"]]
    words += ["--json", "--fence", str(given["fence"]), "--fleet", given["fleet"]]
    return {"changed": True, "process": ktrial.begin("trial", *words, output=given["output"])}


def newest(stored: Iterable[Mapping[str, Any]], name: str | None) -> Mapping[str, Any] | None:
    """Return the newest trial with this name or with a protocol of this name, if any; `stored` has the newest first."""
    found = [one for one in stored if name in {one["name"], one["trial"]}]
    return found[0] if found else None


def _as_stored(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result for a trial that this task does not change."""
    state = "running" if summary["ended"] is None else "ended"
    return {"changed": False, "trial": summary["trial"], "state": state, "blocks": summary["blocks"]}


def _step(ktrial: Ktrial, answer: ProgramAnswer, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the result of one step; `changed` is true if the trial began, has more blocks, or is over now."""
    turn = next((one for one in answer.documents if one.get("event") == "turn"), None)
    if turn is None:
        raise ktrial.failure(answer)
    is_over = turn["state"] == "ended"
    result = {name: turn[name] for name in ("trial", "state", "blocks", "cap", "next_look_s", "in_use")}
    result |= {"changed": before is None or is_over or turn["blocks"] != before["blocks"], "notes": answer.notes}
    if is_over and answer.document is not turn:
        result["result"] = answer.document
    return {**result, "tripped": answer.status == _GUARD_TRIPPED}


def _options(given: Mapping[str, Any]) -> list[str]:
    fence = [] if given["fence"] is None else ["--fence", str(given["fence"])]
    return [*_STEP, *(["--when-idle"] if given["when_idle"] else []), *fence]


def _name_of(file: str) -> str:
    """Return the trial's name from its protocol file on the controller. Raise TaskFailed if the file is unreadable."""
    path = Path(file).expanduser()
    try:
        with path.open("rb") as opened:
            return str(tomllib.load(opened).get("name", path.stem))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = "check the path on the controller" if isinstance(error, OSError) else "correct the file"
        raise TaskFailed(f"cannot read the trial in {file}: {why}", hint) from None
