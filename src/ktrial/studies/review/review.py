# SPDX-License-Identifier: Apache-2.0
"""Reviews a list of tweaks: what each line would do on one machine. It reads values and writes none."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from ktrial.kit.errors import BadInput
from ktrial.studies.review.model import OPEN_STATES, LineState, Review, ReviewedLine
from ktrial.studies.review.uncatalogued_lines import uncatalogued_lines
from ktrial.trial.protocol.from_words import default_suite
from ktrial.tuning.knobs.knob import Knob, clear_each_other
from ktrial.tuning.knobs.profile import Profile, Setting
from ktrial.tuning.knobs.relevance import inert_here
from ktrial.tuning.knobs.value import kernel_text, show_value
from ktrial.tuning.origin.formats.command_line import same_name, split_words
from ktrial.tuning.origin.formats.lines import Assignment, Unread
from ktrial.tuning.origin.import_profile import (
    UnknownSetting,
    checked_toml,
    pair_notes,
    profile_name,
    read_settings,
    settings_of,
    show_source,
)
from ktrial.tuning.plans.model import Change, Context, Plan, Refusal, Request, Why
from ktrial.tuning.plans.plan import resolve
from ktrial.tuning.plans.resolve import context_for

if TYPE_CHECKING:
    from ktrial.machine.ports import Machine
    from ktrial.studies.ledger.model import LedgerEntry
    from ktrial.tuning.catalog.model import Catalog

_OF_REFUSAL: Mapping[Why, LineState] = {
    Why.NOT_OFFERED: "not offered",
    Why.READ_ONLY: "read-only",
    Why.UNREADABLE: "read-only",
    Why.NOT_ADDED: "needs root",
}
_SHOWN_VALUES = 3


class _Finding(NamedTuple):
    """What a setting would do here; `value` is the value to write, if it depends on the machine."""

    state: LineState
    now: str | None = None
    why: str | None = None
    value: str | None = None


class _Ground(NamedTuple):
    """The knowledge by which all settings of the list are judged; `together` contains the knobs that the list sets."""

    catalog: Catalog
    context: Context
    together: frozenset[str]
    program: str


def review(
    data: bytes,
    file: str,
    machine: Machine,
    catalog: Catalog,
    entries_of: Callable[[str], Sequence[LedgerEntry]],
    *,
    user: Machine,
    program: str = "ktrial",
) -> Review:
    """Review a list of tweaks. Raise BadInput if it has no readable setting.

    `entries_of` returns the ledger's entries on a knob. `user` is an unprivileged session, which reads the files that
    the catalog lacks. `program` is the start of suggested commands.
    """
    reading, sniffed = read_settings(data, file)
    pairs = [(item, found) for item in reading.assignments for found in settings_of(item, catalog)]
    settings = tuple(found for _, found in pairs if isinstance(found, Setting))
    facts = machine.facts()
    context = context_for(machine, catalog, [Request("the list", settings)], facts)
    knobs = frozenset(setting.knob.partition("@")[0] for setting in settings)
    place = _Ground(catalog, context, knobs, program)
    overridden = _overridden(pairs, catalog.knobs)
    lines = _not_understood(reading.unread)
    rejected = [(item, found) for item, found in pairs if isinstance(found, UnknownSetting)]
    lines += uncatalogued_lines(user, rejected, context, program)
    remaining: list[Setting] = []
    left_out: list[str] = []
    for index, (item, found) in enumerate(pairs):
        if isinstance(found, UnknownSetting):
            continue
        why = overridden.get(index)
        finding = _find(found, place) if why is None else _Finding("set again", why=why)
        line = _line(item, found, finding, place)
        line = replace(line, measured=_verdicts(entries_of(line.knob or ""), line.setting))
        lines.append(line)
        if line.state in OPEN_STATES:
            remaining += [] if line.dangerous else [found]
            left_out += [line.setting or ""] if line.dangerous else []
    return Review(
        source=show_source(file),
        read_as=sniffed.format,
        lines=tuple(sorted(lines, key=lambda line: line.line)),
        ignored=reading.passed_over,
        remaining=tuple(remaining),
        left_out=tuple(left_out),
    )


def remaining_profile(found: Review, file: str, catalog: Catalog) -> str:
    """Return the remaining settings as the TOML text of a profile. Raise BadInput if no setting remains."""
    if not found.remaining:
        left = f"; left out as dangerous: {', '.join(found.left_out)}" if found.left_out else ""
        raise BadInput(
            f"cannot make a profile of {found.source}: no setting in it would change this machine{left}",
            hint="leave out -o to see the reason for each setting",
        )
    profile = Profile(
        name=profile_name(file),
        summary=f"What {found.source} would change on this machine.",
        notes=pair_notes(found.remaining, catalog),
        setting=found.remaining,
    )
    return checked_toml(profile, catalog)


def _not_understood(unread: Iterable[Unread]) -> list[ReviewedLine]:
    """Return one line of the review, with all reasons, for each line of the list."""
    reasons: dict[tuple[int, str], list[str]] = {}
    for one in unread:
        reasons.setdefault((one.line_number, one.text), []).append(one.reason)
    return [
        ReviewedLine(line=number, text=text, state="not understood", why="; ".join(found))
        for (number, text), found in reasons.items()
    ]


def _overridden(
    pairs: Sequence[tuple[Assignment, Setting | UnknownSetting]], knobs: Mapping[str, Knob]
) -> dict[int, str]:
    """Return the settings that a later line overrides, by position in the list, with the reason.

    A later line may set the same knob, or make the kernel clear it.
    """
    later: dict[str, int] = {}
    numbers: dict[str, int] = {}
    overridden: dict[int, str] = {}
    for index, (item, found) in reversed(list(enumerate(pairs))):
        if not isinstance(found, Setting):
            continue
        key = f"{found.knob} {found.when}"
        knob = knobs[found.knob.partition("@")[0]]
        clears = [other for other in knob.couples if other in numbers and clear_each_other(knob, knobs[other])]
        if key in later:
            overridden[index] = f"line {later[key]} sets it again, and the later line wins"
        elif clears and found.value != 0:
            overridden[index] = f"line {numbers[clears[0]]} sets {clears[0]}, and the kernel then clears this one"
        later.setdefault(key, item.line_number)
        if found.value != 0 and index not in overridden:
            numbers.setdefault(knob.id, item.line_number)
    return overridden


def _find(setting: Setting, place: _Ground) -> _Finding:
    """Return what a setting would do here."""
    context = place.context
    knob = context.knobs[setting.knob.partition("@")[0]]
    if knob.kind == "boot":
        return _at_boot(knob, setting, context)
    try:
        plan = resolve("the list", [Request("the list", (setting,))], context, allow_dangerous=True)
    except BadInput as error:
        return _Finding("invalid", why=error.message)
    if plan.zram is not None:
        return _Finding("would change")
    if plan.changes:
        return _of_changes(knob, plan, place)
    if plan.same:
        return _Finding("already set", now=_values(plan.same))
    return _of_refusal(knob, plan.refusals[0], context)


def _of_changes(knob: Knob, plan: Plan, place: _Ground) -> _Finding:
    inert = inert_here(knob, place.context.facts, place.context.kinds, place.together)
    now = _values((*plan.changes, *plan.same))
    written = {change.new_text for change in plan.changes}
    value = written.pop() if len(written) == 1 else None
    if inert is not None:
        return _Finding("no effect", now, inert, value)
    why = f"already set on {len(plan.same)} of {len(plan.same) + len(plan.changes)}" if plan.same else None
    return _Finding("would change", now, why, value)


def _values(changes: Iterable[Change]) -> str | None:
    """Return the values in force, each once; None if none of them can be read."""
    values = list(dict.fromkeys("unreadable" if one.old_text is None else one.old_text for one in changes))
    if values == ["unreadable"]:
        return None
    return ", ".join(values[:_SHOWN_VALUES]) + (", …" if len(values) > _SHOWN_VALUES else "")


def _of_refusal(knob: Knob, refusal: Refusal, context: Context) -> _Finding:
    why = f"{refusal.reason} ({refusal.hint})" if refusal.hint else refusal.reason
    state = context.states[knob.id]
    if refusal.kind is Why.ABSENT and not state.instances:
        gone = knob.gone is not None and knob.gone in refusal.reason
        if gone:
            why = knob.gone or why
        blocked = not gone and state.blocked is not None and "root" in state.blocked
        return _Finding("gone" if gone else "needs root" if blocked else "not here", why=why)
    return _Finding(_OF_REFUSAL.get(refusal.kind, "not here"), why=why)


def _at_boot(knob: Knob, setting: Setting, context: Context) -> _Finding:
    """Compare a kernel argument with the command line of this boot."""
    if knob.gone is not None and _is_newer(str(context.facts.value("kernel.release") or ""), knob.until):
        return _Finding("gone", why=knob.gone)
    line = context.facts.value("kernel.command_line")
    if not isinstance(line, str):
        return _Finding("next boot", why="the command line of this boot cannot be read")
    words = [word.partition("=") for word in split_words(line.partition(" -- ")[0])]
    same = [(equals, value) for name, equals, value in words if same_name(name, knob.short_name)]
    now = None if not same else same[-1][1] if same[-1][0] else "on"
    if now is not None and now == _value_text(knob, setting):
        return _Finding("already set", now=now)
    return _Finding("next boot", now=now)


def _is_newer(release: str, until: str | None) -> bool:
    here, last = (re.match(r"(\d+)\.(\d+)", text) for text in (release, until or ""))
    return here is not None and last is not None and [*map(int, here.groups())] > [*map(int, last.groups())]


def _value_text(knob: Knob, setting: Setting) -> str:
    if isinstance(setting.value, dict) or knob.kind == "boot" or knob.value.type == "feature":
        return show_value(setting.value)
    return kernel_text(knob, setting.value)


def _line(item: Assignment, setting: Setting, found: _Finding, place: _Ground) -> ReviewedLine:
    knob = place.context.knobs[setting.knob.partition("@")[0]]
    text = f"{setting.knob}={_value_text(knob, setting)}"
    matters = found.state in {*OPEN_STATES, "already set", "needs root"}
    risky = matters and not _is_default(knob, setting)
    return ReviewedLine(
        line=item.line_number,
        text=item.text,
        setting=text,
        knob=knob.id,
        what=knob.what,
        state=found.state,
        now=found.now,
        why=found.why,
        until=knob.until,
        dangerous=risky and knob.risk == "dangerous",
        price=knob.price,
        security=knob.security if risky else None,
        evidence=dict(sorted(Counter(claim.status for claim in knob.evidence).items())),
        next=_next(knob, setting, found, place),
    )


def _is_default(knob: Knob, setting: Setting) -> bool:
    if knob.default is None or isinstance(knob.default, Mapping) or isinstance(setting.value, Mapping):
        return False
    return kernel_text(knob, setting.value) == kernel_text(knob, knob.default)


def _next(knob: Knob, setting: Setting, found: _Finding, place: _Ground) -> str | None:
    """Return the command that tries a setting or, if there is nothing to try, the command that explains it.

    Return None if the value is already set, or if a later line sets the knob again.
    """
    program = place.program
    if found.state == "gone" and (known := [name for name in knob.successor if name in place.catalog.knobs]):
        return f"{program} explain {known[0]}"
    if found.state in {"already set", "set again"}:
        return None
    value = found.value if isinstance(setting.value, dict) else _value_text(knob, setting)
    if found.state not in OPEN_STATES or value is None:
        return f"{program} explain {knob.id}"
    word = f"{setting.knob}={value}"
    try:
        default_suite((word,), place.catalog)
        suite = ""
    except BadInput:
        suite = " --suite quick"
    return f"{program} try {shlex.quote(word)}{suite}{_consent(knob, setting)}"


def _consent(knob: Knob, setting: Setting) -> str:
    """Return the option that a trial of this setting needs; empty if it needs none."""
    if _is_default(knob, setting):
        return ""
    if knob.kind == "boot" and knob.security is not None:
        return f" --yes-security {knob.short_name}"
    return " --yes-dangerous" if knob.risk == "dangerous" else ""


def _verdicts(entries: Iterable[LedgerEntry], setting: str | None) -> tuple[str, ...]:
    """Return the verdicts of trials of exactly this setting, the newest first."""
    return tuple(
        f"{entry.verdict} in {entry.outcome} ({entry.trial})"
        for entry in entries
        if entry.verdict is not None and [f"{name}={value}" for name, value in entry.changes.items()] == [setting]
    )
