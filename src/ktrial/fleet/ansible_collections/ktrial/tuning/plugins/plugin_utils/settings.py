# SPDX-License-Identifier: Apache-2.0
"""Carries out the modules facts, plan, apply, verify and revert: runs ktrial, and makes results from its answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .program import Ktrial, ProgramAnswer, TaskFailed

_DRIFTED = 3


def read_facts(ktrial: Ktrial, given: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    """Return the machine's facts as variables."""
    del writes
    facts = ktrial.run("facts", "--json", *given["prefixes"]).document["facts"]
    values = {name: fact["value"] for name, fact in facts.items() if "value" in fact}
    missing = {name: fact.get("absent") or fact.get("unknown") for name, fact in facts.items() if "value" not in fact}
    return {"changed": False, "ansible_facts": {"ktrial": values}, "missing": missing}


def show_plan(ktrial: Ktrial, given: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    """Return what `apply` would change; nothing is written."""
    del writes
    return {**plan_of(ktrial, given), "changed": False}


def apply_settings(ktrial: Ktrial, given: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    """Apply the settings that differ, as one transaction.

    The plan finds the differences without a write or a lock. Without `writes`, only return what would change.
    """
    result = plan_of(ktrial, given)
    if not result["changes"]:
        if result["skipped"] and not result["unchanged"]:
            first = result["skipped"][0]
            why = f"nothing was applied; {first['knob']} was skipped: {first['reason']}"
            raise TaskFailed(why, first["hint"], **result)
        return {**result, "changed": False, "transaction": None}
    if not writes:
        return {**result, "changed": True, "transaction": None}
    options = ["--yes", *(["--for", given["revert_after"]] if given["revert_after"] else [])]
    options += ["--keep-going"] if given["keep_going"] else []
    answer = ktrial.run("apply", "--json", *options, *words_of(given), accepts=(0, 1))
    document = answer.document
    if "state" not in document:
        raise ktrial.failure(answer)
    steps = document["steps"]
    if answer.status:
        hint = "correct or remove these settings"
        hint += "" if given["keep_going"] else ", or set `keep_going: true` to apply the others"
        raise TaskFailed(_rejected(steps), hint, rc=answer.status, steps=steps)
    changed = document["transaction"] is not None
    return {**result, "changed": changed, "transaction": document["transaction"], "steps": steps, "notes": answer.notes}


def verify_settings(ktrial: Ktrial, given: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    """Check the transactions and return them. Raise TaskFailed if one of their values is no longer in force."""
    del writes
    words = [] if given["transaction"] is None else [str(given["transaction"])]
    answer = ktrial.run("verify", "--json", *words, accepts=(0, _DRIFTED))
    found = answer.document["transactions"]
    drifted = [step for one in found for step in one["steps"] if step["outcome"] != "in-force"]
    result = {"changed": False, "transactions": found, "drifted": drifted}
    if drifted:
        names = ", ".join(str(step["path"]) for step in drifted)
        why = f"values are no longer in force: {names}"
        raise TaskFailed(why, "apply the settings again, or revert the transaction", rc=answer.status, **result)
    return result


def revert_settings(ktrial: Ktrial, given: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    """Revert the transaction `transaction`, all transactions newer than `newer_than`, or all transactions."""
    chosen = transactions_to_revert(ktrial.run("status", "--json").document["transactions"], given)
    result = {"changed": bool(chosen), "transactions": [one["transaction"] for one in chosen]}
    changes = [_change(step, step.get("new"), step.get("old")) for one in chosen for step in reversed(one["steps"])]
    result |= {"changes": changes, "diff": differences(changes)}
    if not chosen or not writes:
        return result
    if given["transaction"] is not None:
        words = ["--only", str(given["transaction"])]
    else:
        words = ["--all"] if given["newer_than"] is None else ["--to", str(given["newer_than"])]
    answer = ktrial.run("revert", "--json", *words, *(["--force"] if given["force"] else []), accepts=(0, 1))
    if "transactions" not in answer.document:
        raise ktrial.failure(answer)
    steps = [step for one in answer.document["transactions"] for step in one["steps"]]
    if answer.status:
        left = [f"{step['path']}: {step['message']}" for step in steps if step["message"]]
        why = "; ".join(left) or " ".join(answer.notes) or "a transaction stays open"
        numbers = [
            one["transaction"]
            for one in answer.document["transactions"]
            if any(step["message"] for step in one["steps"])
        ]
        force = " and ".join(f"`ktrial revert --only {number} --force`" for number in numbers) or "`ktrial recover`"
        hint = f"run {force} with --host for this machine"
        raise TaskFailed(f"not everything was restored: {why}", hint, rc=1, steps=steps)
    return {**result, "changed": bool(steps), "steps": steps}


def transactions_to_revert(found: Iterable[Mapping[str, Any]], given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the transactions that the task names and that are not reverted yet, the newest first."""
    active = [one for one in found if one["state"] in {"applied", "unfinished"}]
    if given["transaction"] is not None:
        active = [one for one in active if one["transaction"] == given["transaction"]]
    elif given["newer_than"] is not None:
        active = [one for one in active if one["transaction"] > given["newer_than"]]
    return sorted(active, key=lambda one: int(one["transaction"]), reverse=True)


def words_of(given: Mapping[str, Any]) -> list[str]:
    """Return profiles and settings as words of a command line.

    Raise TaskFailed if there are none, for a value that is neither text nor a number, or for a name that begins with a
    hyphen.
    """
    words = list(given["profiles"])
    for knob, value in given["settings"].items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            hint = "put the value into quotes" if isinstance(value, bool) else "write text or a number"
            raise TaskFailed(f"{knob}: expected text or a number, got {value!r}", hint)
        words.append(f"{knob}={value}")
    if not words:
        raise TaskFailed("the task names no settings and no profiles", "set `settings` or `profiles`")
    if dashed := [word for word in words if word.startswith("-")]:
        raise TaskFailed(f"{dashed[0]}: not the name of a setting or a profile", "remove the hyphen at the beginning")
    return [*(["--yes-dangerous"] if given["allow_dangerous"] else []), "--", *words]


def plan_of(ktrial: Ktrial, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs, what is already set, what is skipped, and the difference for --diff."""
    answer = ktrial.run("plan", "--json", *words_of(given), accepts=(0, 2))
    document = answer.document
    if wrong := document.get("wrong"):
        raise TaskFailed(wrong[0]["error"], wrong[0]["next"], rc=answer.status, wrong=wrong)
    if answer.status:
        raise ktrial.failure(answer)
    return _plan_result(answer)


def _plan_result(answer: ProgramAnswer) -> dict[str, Any]:
    document = answer.document
    changes = [_change(step, step.get("expect"), step.get("new")) for step in document["plan"]["steps"]]
    result = {
        "changes": changes,
        "unchanged": [{"knob": one["knob"], "value": one["value"]} for one in document["same"]],
        "skipped": document["refusals"],
        "without_effect": document["inert"],
        "diff": differences(changes),
    }
    if document["refusals"]:
        result["warnings"] = [f"skipped {one['knob']}: {one['reason']}" for one in document["refusals"]]
    return result


def _change(step: Mapping[str, Any], before: str | None, after: str | None) -> dict[str, Any]:
    name = step.get("knob") or step.get("path") or step.get("kind")
    return {"knob": name, "before": _value(before), "after": _value(after)}


def _value(text: Any) -> str | None:
    """Return a value as people write it, without outer blanks; of a list, return the choice in brackets."""
    if not isinstance(text, str):
        return None if text is None else "(bytes that are not text)"
    words = text.split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    return chosen[0] if len(chosen) == 1 and len(words) > 1 else text.strip()


def differences(changes: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return what --diff shows: each value before and after."""
    return [
        {
            "before_header": f"{one['knob']} (before)",
            "after_header": f"{one['knob']} (after)",
            "before": "" if one["before"] is None else f"{one['before']}\n",
            "after": "" if one["after"] is None else f"{one['after']}\n",
        }
        for one in changes
    ]


def _rejected(steps: Iterable[Mapping[str, Any]]) -> str:
    why = [f"{step.get('path')}: {step.get('message') or step['outcome']}" for step in steps if step.get("message")]
    return "nothing was applied: " + ("; ".join(why) or "the machine did not accept the settings")
