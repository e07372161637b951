# SPDX-License-Identifier: Apache-2.0
"""Carries out the module keep: writes settings to the system's own configuration files, or removes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .program import Ktrial, TaskFailed
from .settings import differences, plan_of, words_of


def keep_settings(ktrial: Ktrial, given: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    """Keep settings across boots, or stop keeping them; without `writes`, only return what would change."""
    if given["state"] == "absent":
        return _unkeep(ktrial, given, writes=writes)
    words = [*_options(given), *([given["trial"], *words_of_all(given)] if given["trial"] else words_of(given))]
    return _carry_out(ktrial, words, writes=writes)


def words_of_all(given: Mapping[str, Any]) -> list[str]:
    """Return the words for profiles and settings; an empty list if the task names neither."""
    return words_of(given) if given["profiles"] or given["settings"] else []


def _options(given: Mapping[str, Any]) -> list[str]:
    options = [f"--{name.replace('_', '-')}" for name in ("next_boot", "anyway") if given[name]]
    options += ["--loader", given["loader"]] if given["loader"] else []
    return [*options, *(word for name in given["allow_security"] for word in ("--yes-security", name))]


def _unkeep(ktrial: Ktrial, given: Mapping[str, Any], *, writes: bool) -> dict[str, Any]:
    """Stop keeping the settings that the task names, or all; ignore settings that are not kept."""
    if given["trial"]:
        raise TaskFailed(
            "cannot undo a trial by its name", "name the settings, or leave out `trial` to undo everything"
        )
    kept = [one["address"] for one in ktrial.run("drift", "--json", accepts=(0, 3)).document["settings"]]
    is_all = not given["profiles"] and not given["settings"]
    chosen = kept if is_all else [name for name in kept if name in _addresses_of(ktrial, given)]
    if not chosen:
        return {"changed": False, "transaction": None, "files": [], "settings": [], "diff": []}
    return _carry_out(ktrial, ["--undo", *([] if is_all else chosen)], writes=writes, settings=chosen)


def _addresses_of(ktrial: Ktrial, given: Mapping[str, Any]) -> set[str]:
    """Return the addresses of the settings that the task names; a profile's addresses come from its plan."""
    if not given["profiles"]:
        return set(given["settings"])
    plan = plan_of(ktrial, given)
    return {one["knob"] for part in ("changes", "unchanged", "skipped") for one in plan[part]} | set(given["settings"])


def _carry_out(ktrial: Ktrial, words: list[str], *, writes: bool, settings: list[str] | None = None) -> dict[str, Any]:
    dry = ktrial.run("keep", "--json", "--dry-run", *words).document
    result = _result(dry, settings)
    if not result["changed"] or not writes:
        return {**result, "transaction": None}
    answer = ktrial.run("keep", "--json", "--yes", *words, accepts=(0, 1))
    done = answer.document
    transactions = done.get("transactions", [done])
    if answer.status or not transactions:
        if done.get("schema") == "ktrial.error/1":
            raise ktrial.failure(answer)
        hint = "run `ktrial keep` with the same settings to see which step fails"
        raise TaskFailed("the settings were not written", hint, rc=answer.status, answer=done)
    return {**result, "transaction": transactions[-1]["transaction"], "notes": answer.notes}


def _result(document: Mapping[str, Any], settings: list[str] | None) -> dict[str, Any]:
    """Return the result of a dry run, with each file before and after."""
    if document["schema"] == "ktrial.unkept/1":  # everything that is kept will be removed
        changes = [{"knob": name, "before": "kept", "after": None} for name in settings or []]
        return {
            "changed": bool(document["kept"]),
            "files": [],
            "settings": [{"address": name} for name in settings or []],
            "diff": differences(changes),
        }
    steps = document["plan"]["steps"]
    values = [step for step in steps if step["kind"] == "write"]
    changes = [{"knob": one["knob"], "before": _text(one.get("expect")), "after": _text(one["new"])} for one in values]
    files = [
        {
            "before_header": one["path"],
            "after_header": one["path"],
            "before": one["before"] or "",
            "after": one["after"] or "",
        }
        for one in document["files"]
    ]
    result = {
        "changed": bool(steps),
        "files": [one["path"] for one in document["files"]],
        "settings": document["settings"] or [{"address": name} for name in settings or []],
        "diff": [*files, *differences(changes)],
    }
    if document["left_out"]:
        result["warnings"] = [f"left out {one['address']}: {one['reason']}" for one in document["left_out"]]
    return result


def _text(value: Any) -> str | None:
    return value.strip() if isinstance(value, str) else None
