# SPDX-License-Identifier: Apache-2.0
"""What a trial boot will do, and its state, as text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ktrial.kit.plain_text import plain
from ktrial.kit.tables import labelled, paragraph, shorten
from ktrial.kit.units import show_seconds
from ktrial.tuning.boots.boot_status import (
    BootEvent,
    BootState,
    BootStatus,
    is_arm,
    last_attempt,
    state_of,
)
from ktrial.tuning.boots.entry import TRIAL, BootPlan
from ktrial.tuning.boots.scene import Obstacle

_LOADERS = {"grub": "GRUB", "systemd-boot": "systemd-boot", "kexec": "the running kernel (kexec)"}
_MOST_LINES = 12
_KEEP, _UNDO = "`ktrial boot keep` makes it the default", "`ktrial boot undo` removes it"
_AGAIN = "run `ktrial boot undo`, then `ktrial boot try … --yes` to boot it"
_DEFAULT = "This is the default entry again."


class TrialTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a trial boot, which fails if it is not healthy within `limit_s`.

    `watchdog` names the hardware watchdog, if any. `rehearsal` is the event of the rehearsal with this loader; None
    if there was none yet. `guards` are units that must be active.
    """

    limit_s: float
    watchdog: str | None
    watchdog_s: int | None
    rehearsal: BootEvent | None
    guards: tuple[str, ...] = ()


def plan_text(plan: BootPlan, terms: TrialTerms, obstacles: Iterable[Obstacle], *, width: int) -> str:
    """Return a text that shows what the trial boot will do and how the machine comes back."""
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
        "the machine reboots 10 s after a panic, an oops or a hang of a CPU or task, and also if the boot is not"
        f" healthy within {show_seconds(terms.limit_s)}"
    )


def _watchdog(terms: TrialTerms) -> str:
    if terms.watchdog is None or terms.watchdog_s is None:
        return "none: if the kernel hangs and cannot even panic, a person has to reset the machine"
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


#: State -> a sentence, and the next step. {it} and {this} name the boot, which may belong to a trial.
_SENTENCES: dict[BootState, tuple[str, str]] = {
    "nothing": ("No trial boot is prepared.", "`ktrial boot try ARGUMENT` prepares one"),
    "prepared": (
        "A trial boot is prepared, and nothing will boot it: the next boot takes the default entry.",
        _AGAIN,
    ),
    "rehearsal-armed": (
        "The next boot is the rehearsal: it panics at once and should lead back to the default entry.",
        "reboot; `ktrial boot undo` calls it off",
    ),
    "rehearsed": (
        "The rehearsal succeeded: the machine came back in its default entry. The trial boot is not armed.",
        _AGAIN,
    ),
    "rehearsal-failed": (
        "The rehearsal failed, so ktrial boots no other entry on this machine.",
        "`ktrial boot undo` removes it; boot by hand, with a person at the machine",
    ),
    "armed": (
        "The next boot takes the trial entry, once; the one after it takes the default entry.",
        "reboot; `ktrial boot undo` calls it off",
    ),
    "checking": (
        "{this}. ktrial checks whether it is healthy.",
        "wait, then `ktrial boot status` again",
    ),
    "healthy": (
        "{this}, and it is healthy. The next boot takes the default entry again.",
        f"{_KEEP}; {_UNDO}",
    ),
    "failing": (
        "{this}, and it failed: the machine reboots into its default entry.",
        "wait for the reboot, then `ktrial boot status` again",
    ),
    "not-started": (f"{{it}} was not started. {_DEFAULT}", _AGAIN),
    "did-not-come-up": (f"{{it}} did not come up: it panicked, hung or was reset. {_DEFAULT}", _UNDO),
    "unhealthy": (f"{{it}} came up and failed its health check. {_DEFAULT}", _UNDO),
    "cut-short": (f"{{it}} came up and ended early: it panicked, hung or was reset. {_DEFAULT}", _UNDO),
    "gave-up": (f"{{it}} was healthy, but the trial could not continue in it. {_DEFAULT}", _UNDO),
    "left": (
        f"{{it}} was healthy and was left without `ktrial boot keep`. {_DEFAULT}",
        f"{_KEEP}; {_UNDO}",
    ),
}
#: State -> the sentence to use instead if a trial boots the machine.
_OF_TRIALS: dict[BootState, str] = {
    "prepared": "The boots of {trial} are prepared, and none is armed: the next boot takes the default entry.",
    "rehearsal-armed": (
        "The next boot is the rehearsal for {trial}: it panics at once and should lead back to the default entry."
    ),
    "rehearsed": "The rehearsal for {trial} succeeded: the machine came back in its default entry.",
    "armed": "The next boot takes an entry of {trial}, once; the one after it takes the default entry.",
    "healthy": "{this}, and it is healthy.",
    "left": f"{{it}} was healthy and is over. {_DEFAULT}",
}


def status_text(status: BootStatus, *, width: int, trials: Mapping[int, str] | None = None) -> str:
    """Return a text on the trial boot: its state, its entry, what happened, the last log lines, and the next step.

    `trials` maps each transaction that prepared boots of a trial to the trial's name.
    """
    trials = trials or {}
    state, event = state_of(status)
    sentence, step = _sentence(status, state, trials)
    lines = [paragraph(sentence, width=width)]
    shown = status.entry(_entry(status, state, event))
    if state != "nothing" and shown is not None:
        words = f", with {' '.join(shown.words)}" if shown.words else ""
        lines.append(labelled("entry", f"{shown.title or shown.id}: {shown.kernel}{words}", width=width))
    if status.guards:
        lines.append(labelled("guards", ", ".join(status.guards), width=width))
    if state == "nothing":
        lines += _last(status, trials, width)
    elif event is not None:
        lines.append(labelled("when", _when(event), width=width))
        lines += _reasons(event, width)
    lines.append(paragraph(f"next: {step}", width=width))
    return "\n".join(lines) + "\n"


def _sentence(status: BootStatus, state: BootState, trials: Mapping[int, str]) -> tuple[str, str]:
    """Return a sentence about a state, and the next step."""
    sentence, step = _SENTENCES[state]
    it, this, trial = "The trial boot", "This is the trial boot", ""
    number = status.transaction
    if status.is_of_trial and state != "nothing":
        name = trials.get(number) if number is not None else None
        trial, stop = ("a trial", "`ktrial trial stop`") if name is None else (name, f"`ktrial trial stop {name}`")
        trial = trial if name is None else f"the trial {name}"
        it, this = f"The last boot of {trial}", f"This boot is one of {trial}"
        sentence = _OF_TRIALS.get(state, sentence)
        if status.armed is not None:
            step = f"reboot; {stop} calls it off"
        elif state == "rehearsal-failed":
            step = f"{stop} removes what is prepared; boot by hand, with a person at the machine"
        else:
            step = f"the trial continues by itself, after a reboot at the latest; {stop} stops it"
    if number is None and status.running is not None:
        step = "reboot into the default entry; ktrial has removed what it had prepared"
    return sentence.format(it=it, this=this, trial=trial), step


def _entry(status: BootStatus, state: BootState, event: BootEvent | None) -> str:
    """Return the entry that a state refers to."""
    if state == "rehearsed":
        return TRIAL
    return status.running or status.armed or (event.entry if event is not None else TRIAL)


#: How the last boot ended.
_ENDINGS: dict[BootState, str] = {
    "rehearsal-failed": "the rehearsal failed",
    "not-started": "was not started",
    "did-not-come-up": "did not come up",
    "unhealthy": "failed its health check",
    "cut-short": "came up and ended early",
    "gave-up": "healthy, but the trial could not continue",
    "left": "healthy",
}


def _last(status: BootStatus, trials: Mapping[int, str], width: int) -> list[str]:
    """Return lines on how the newest trial boot ended; no lines if there was none."""
    found = last_attempt(status)
    if found is None:
        return []
    state, event = found
    lines = [labelled("last attempt", f"{_ENDINGS[state]}, {_when(event)}", width=width, label_columns=13)]
    if is_arm(event.entry):
        name = trials.get(event.transaction) if event.transaction is not None else None
        of = "of a trial" if name is None else f"of the trial {name}"
        lines.append(labelled("entry", f"{event.entry} {of}", width=width))
    return lines + _reasons(event, width)


def _when(event: BootEvent) -> str:
    return f"{_moment(event)}, {event.loader}" if event.loader else _moment(event)


def _reasons(event: BootEvent, width: int) -> list[str]:
    lines = [labelled("why" if number == 0 else "", why, width=width) for number, why in enumerate(event.why)]
    if event.log:
        lines += ["last lines of its log:", *_log(event.log, width)]
    return lines


def _log(log: Sequence[str], width: int) -> list[str]:
    return [f"  {shorten(plain(' '.join(line.split())), min(width, 100) - 2)}" for line in log[-_MOST_LINES:]]
