# SPDX-License-Identifier: Apache-2.0
"""What a trial boot will do, and how one stands, as text of 80 columns."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from ktrial.kit.plain_text import plain
from ktrial.kit.tables import labelled, paragraph, shorten
from ktrial.kit.units import show_seconds
from ktrial.tuning.boots.boot_status import BootEvent, BootState, BootStatus, last_attempt, state_of
from ktrial.tuning.boots.entry import REHEARSAL, TRIAL, BootPlan
from ktrial.tuning.boots.scene import Obstacle

_LOADERS = {"grub": "GRUB", "systemd-boot": "systemd-boot", "kexec": "the running kernel (kexec)"}
_MOST_LINES = 12
_KEEP, _UNDO = "`ktrial boot keep` makes it the default", "`ktrial boot undo` removes it"


class TrialTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How a trial boot ends: after `limit_s` without health; `watchdog` is the hardware's name, None without one.

    `rehearsal` is the event of the rehearsal with this loader; None if one is needed first. `guards` are units that
    must be active.
    """

    limit_s: float
    watchdog: str | None
    watchdog_s: int | None
    rehearsal: BootEvent | None
    guards: tuple[str, ...] = ()


def plan_text(plan: BootPlan, terms: TrialTerms, obstacles: Iterable[Obstacle], *, width: int) -> str:
    """Return what the trial boot will do and how the machine comes back."""
    loader = _LOADERS[plan.loader]
    what = f"{loader} gets one more entry, in {plan.path}, and boots it once."
    if plan.loader == "kexec":
        what = f"The running kernel starts one entry itself, past firmware and boot loader ({plan.path})."
    lines = [
        paragraph(f"{what} The default entry stays as it is: every other boot takes it.", width=width),
        "",
        labelled("kernel", _kernel(plan), width=width),
    ]
    lines += _words(plan, width)
    lines += [
        labelled("comes back", _ways_back(terms), width=width),
        *(
            [labelled("guards", f"healthy only if active: {', '.join(terms.guards)}", width=width)]
            if terms.guards
            else []
        ),
        labelled("watchdog", _watchdog(terms), width=width),
        labelled("rehearsal", _rehearsal(terms, loader), width=width),
        *(labelled("note", one.message, width=width) for one in obstacles if one.is_note and one.kind != "no-watchdog"),
        *(labelled("accepted", one.message, width=width) for one in obstacles if one.needs is not None),
        "",
        paragraph(f"`ktrial boot status` shows how it went, {_KEEP}, {_UNDO}.", width=width),
    ]
    return "\n".join(lines) + "\n"


def _kernel(plan: BootPlan) -> str:
    if not plan.is_other_kernel:
        return f"{plan.release}, which is running"
    release = f" ({plan.release})" if plan.release and plan.release not in plan.entry.file else ""
    return f"{plan.entry.file}{release}"


def _words(plan: BootPlan, width: int) -> list[str]:
    line = plan.line
    replaced = {text for text in line.removed if text.partition("=")[0].replace("-", "_") in line.new_names}
    gone = [text for text in line.removed if text not in replaced]
    rows = [("adds", [word.text for word in line.words]), ("replaces", sorted(replaced)), ("removes", gone)]
    return [labelled(label, " ".join(texts), width=width) for label, texts in rows if texts]


def _ways_back(terms: TrialTerms) -> str:
    return (
        "a panic, an oops or a CPU or task that hangs reboots the machine after 10 s; so does a boot that is not"
        f" healthy within {show_seconds(terms.limit_s)}"
    )


def _watchdog(terms: TrialTerms) -> str:
    if terms.watchdog is None or terms.watchdog_s is None:
        return "none: if the kernel hangs so that it cannot even panic, a person has to reset the machine"
    return f"{terms.watchdog} resets the machine if nothing answers it for {terms.watchdog_s} s"


def _rehearsal(terms: TrialTerms, loader: str) -> str:
    done = terms.rehearsal
    if done is None:
        return f"first: one boot that panics at once, to see that {loader} leads back to the default entry"
    return f"done on {_day(done)} with {done.loader}: it led back to the default entry"


def _day(event: BootEvent) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(event.at))


def _moment(event: BootEvent) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(event.at))


#: State -> a sentence, and the next step.
_SENTENCES: dict[BootState, tuple[str, str]] = {
    "nothing": ("No trial boot is prepared.", "`ktrial boot try WORDS` prepares one"),
    "prepared": (
        "A trial boot is prepared, and nothing will boot it: the next boot takes the default entry.",
        f"`ktrial boot try … --yes` boots it; {_UNDO}",
    ),
    "rehearsal-armed": (
        "The next boot is the rehearsal: it panics at once and should lead back to the default entry.",
        "reboot; `ktrial boot undo` calls it off",
    ),
    "rehearsed": (
        "The rehearsal succeeded: the machine came back in its default entry. The trial boot is not armed.",
        f"`ktrial boot try … --yes` boots it; {_UNDO}",
    ),
    "rehearsal-failed": (
        "The rehearsal failed, so ktrial does not boot the trial entry on this machine.",
        "`ktrial boot undo` removes it; boot by hand, with a person at the machine",
    ),
    "armed": (
        "The next boot takes the trial entry, once; the one after it takes the default entry.",
        "reboot; `ktrial boot undo` calls it off",
    ),
    "checking": (
        "This is the trial boot. ktrial checks whether it is healthy.",
        "wait, then `ktrial boot status` again",
    ),
    "healthy": (
        "This is the trial boot, and it is healthy. The next boot takes the default entry again.",
        f"{_KEEP}; {_UNDO}",
    ),
    "failing": (
        "This is the trial boot, and it failed its health check: the machine reboots into its default entry.",
        "wait for the reboot, then `ktrial boot status` again",
    ),
    "did-not-come-up": (
        "The trial boot did not come up: it panicked, hung or was reset. This is the default entry again.",
        _UNDO,
    ),
    "unhealthy": (
        "The trial boot came up and failed its health check. This is the default entry again.",
        _UNDO,
    ),
    "left": (
        "The trial boot was healthy and was left without `ktrial boot keep`. This is the default entry again.",
        f"{_KEEP}; {_UNDO}",
    ),
}


def status_text(status: BootStatus, *, width: int) -> str:
    """Return how the attempt stands: what it is, what happened, the last lines of its log, and the next step."""
    state, event = state_of(status)
    sentence, step = _SENTENCES[state]
    lines = [paragraph(sentence, width=width)]
    shown = status.entry(REHEARSAL if state.startswith("rehears") and state != "rehearsed" else TRIAL)
    if state != "nothing" and shown is not None:
        words = f", with {' '.join(shown.words)}" if shown.words else ""
        lines.append(labelled("entry", f"{shown.title or shown.id}: {shown.kernel}{words}", width=width))
    if status.guards:
        lines.append(labelled("guards", ", ".join(status.guards), width=width))
    if state == "nothing":
        event = last_attempt(status)
    if event is not None:
        lines += _event(event, width, is_last=state == "nothing")
    lines.append(paragraph(f"next: {step}", width=width))
    return "\n".join(lines) + "\n"


_EVENTS = {
    "rehearsed": "the rehearsal led back",
    "armed": "armed",
    "begun": "the running kernel starts it",
    "started": "it started",
    "healthy": "healthy",
    "failed": "failed its health check",
    "fell-back": "did not come up",
    "left": "left while healthy",
}


def _event(event: BootEvent, width: int, *, is_last: bool) -> list[str]:
    loader = f", {event.loader}" if event.loader else ""
    label = "last attempt" if is_last else "when"
    what = f"{_EVENTS[event.event]}, " if is_last else ""
    lines = [labelled(label, f"{what}{_moment(event)}{loader}", width=width, label_columns=13 if is_last else 12)]
    lines += [labelled("why" if number == 0 else "", why, width=width) for number, why in enumerate(event.why)]
    if event.log:
        lines += ["last lines of its log:", *_log(event.log, width)]
    return lines


def _log(log: Sequence[str], width: int) -> list[str]:
    return [f"  {shorten(plain(' '.join(line.split())), min(width, 100) - 2)}" for line in log[-_MOST_LINES:]]
