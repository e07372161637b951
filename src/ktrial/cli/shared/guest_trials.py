# SPDX-License-Identifier: Apache-2.0
"""Runs trials in guests, from the protocol to the verdict."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from msgspec.structs import replace

from ktrial.cli.shared.arm_kernels import workshop_of
from ktrial.cli.shared.bench import choose
from ktrial.cli.shared.trial_start import look_at
from ktrial.kernels.images.images import RUNNING
from ktrial.kernels.request import parse_set
from ktrial.kernels.source import parse_patch
from ktrial.kit.errors import BadInput
from ktrial.trial.guests.guest_kernels import kernel_words, planned_kernels, refuse_same
from ktrial.trial.guests.prepare import (
    GuestMeans,
    find_named_kernels,
    found_in_guests,
    prepare_in_guests,
    refuse_unlike,
)
from ktrial.trial.guests.recipe import KernelChange
from ktrial.trial.guests.visits import carry_on_in_guests
from ktrial.trial.protocol.file import CONTROL, ArmFile, trial_text
from ktrial.trial.protocol.from_words import arms_of
from ktrial.trial.protocol.protocol import outcomes_around, protocol_of
from ktrial.trial.record import changed_arms
from ktrial.trial.run.conduct import Planned

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.bench.guest_tools import GuestPlace
    from ktrial.cli.app import App
    from ktrial.judge.model.log import Protocol
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.record import StoredTrial
    from ktrial.trial.run.conduct import CarriedOut
    from ktrial.trial.run.events import TrialListener

_LIMIT_BYTES = 1 << 20
#: What `ktrial kernel trial` accepts besides a protocol file: everything else describes the trial, as the file does.
_WITH_FILE = frozenset(
    ("words", "dry_run", "yes", "yes_security", "yes_kernel", "anyway", "fail_on", "yes_dangerous", "as_json")
)


@contextmanager
def scout(app: App, place: GuestPlace) -> Iterator[AgentSession]:
    """Boot a guest, and yield a root session in it.

    The guest contains only what `place` names: other content in its memory would change values that the kernel derives
    from free memory.
    """
    guest = app.kernels.lab.talk(place)
    try:
        session = app.kernels.session_in(guest, "root")
        try:
            yield session
        finally:
            session.close()
    finally:
        guest.close()


def words_of(app: App, file: TrialFile) -> Mapping[str, str]:
    """Build the missing kernels; return for each arm the word that names its kernel."""
    return kernel_words(file, workshop_of(app), app.say)


class InGuests:
    """Runs a trial in guests. Implements `Venue`."""

    def __init__(self, app: App, file: TrialFile, *, allow_dangerous: bool) -> None:
        self._app = app
        suite, benchmarks = choose(app, file.suite, None, (), None)
        means = GuestMeans(app.kernels.lab, partial(scout, app), partial(words_of, app))
        self._guests = prepare_in_guests(app, file, suite, benchmarks, means, allow_dangerous=allow_dangerous)
        self.ready = self._guests.ready

    def plan(self, listen: TrialListener, *, profile: bool) -> Planned:
        """Fix the protocol; trials in guests do not measure noise first."""
        ready = self.ready
        workloads = ready.file.guest.workloads if ready.file.guest is not None else 1
        around = outcomes_around(ready.suite)
        return Planned(protocol_of(ready.file, ready.tasks, {}, ready.seed, None, workloads, around), None, None)

    def unread_gates(self, protocol: Protocol) -> Sequence[str]:
        return ()

    def begin(self, protocol: Protocol) -> StoredTrial:
        from ktrial.trial.run.conduct import begin

        found = found_in_guests(self.ready, self._guests.places, self._app.kernels.lab.identify)
        return begin(self._app, self.ready, protocol, found)

    def changed(self, stored: StoredTrial) -> str | None:
        """Return the first arm whose kernel or values have changed since the start; None if there is none."""
        return next(iter(changed_arms(stored.arms, self.ready.arms)), None)

    def carry_on(self, stored: StoredTrial, listen: TrialListener) -> CarriedOut:
        app = self._app
        return carry_on_in_guests(app, stored, self._guests, app.kernels.lab, app.interrupts.check, listen)


def arms_in_guests(
    app: App,
    kernels: Sequence[str],
    built: Mapping[str, KernelChange],
    words: Sequence[str],
    boots: Sequence[str],
    *,
    placebo: bool,
) -> Mapping[str, ArmFile]:
    """Return the control, and an arm for each other kernel, each set of kernel arguments and each setting."""
    arms: dict[str, ArmFile] = {CONTROL: ArmFile()}
    if placebo:
        arms["placebo"] = ArmFile(placebo=True)
    for kernel in kernels:
        arms[_free(_name(kernel), arms)] = ArmFile(kernel=kernel)
    for name, change in built.items():
        arms[_free(_name(name), arms)] = ArmFile(kernel=change)
    for text in boots:
        arms[_free(_name(text), arms)] = ArmFile(boot=tuple(text.split()))
    if words:
        of_words = arms_of(words, app.catalog, {}, placebo=False)
        if of_words[CONTROL] != ArmFile() and len(arms) > 1 + placebo:
            raise BadInput(
                "cannot compare zram algorithms in one trial with kernels or kernel arguments",
                hint="run a separate trial of the zram algorithms",
            )
        arms |= of_words
    if len(arms) < 2:
        raise BadInput(
            "nothing to compare",
            hint="add a kernel, --boot ARGUMENTS, KNOB=VALUE or --placebo; with --tree also --fragment, --set, --patch "
            "or --target",
        )
    return arms


def on_this_machine(arms: Mapping[str, ArmFile], control: str) -> Mapping[str, ArmFile]:
    """Return the arms for boots of this machine. An arm without a kernel gets the kernel of `control`.

    Raise BadInput if no arm needs a boot.
    """
    base = None if control == RUNNING else control
    found = {}
    for name, arm in arms.items():
        kernel = base if arm.kernel is None else arm.kernel
        found[name] = arm if arm.placebo else replace(arm, kernel=None if kernel == RUNNING else kernel)
    if not any(arm.kernel or arm.boot for arm in found.values()):
        raise BadInput(
            "cannot compare by rebooting: no arm changes the kernel or its arguments",
            hint="compare settings with `ktrial try`, or add --guest to compare them in guests of this kernel",
        )
    return found


def built_arms(
    fragments: Sequence[str], settings: Sequence[str], patches: Sequence[str], targets: Sequence[str]
) -> Mapping[str, KernelChange]:
    """Return each option's kernel change by name: the option's text, or a patch's file name without `.patch`."""
    changes = {text: KernelChange(fragments=tuple(text.split())) for text in fragments}
    for text in settings:
        wishes = [parse_set(word) for word in text.split()]
        changes[text] = KernelChange(set={wish.symbol: wish.value for wish in wishes})
    changes |= {target: KernelChange(target=target) for target in targets}
    changes |= {parse_patch(word).place.removesuffix(".patch"): KernelChange(patches=(word,)) for word in patches}
    return changes


def _name(text: str) -> str:
    base = text.rstrip("/").rpartition("/")[2].removesuffix(".deb").removeprefix("linux-image-")
    name = "".join(character if character.isalnum() or character in "._+-" else "-" for character in base)
    return name.strip("._+-")[:60] or "arm"


def _free(name: str, taken: Mapping[str, object]) -> str:
    number = 2
    found = name
    while found in taken:
        found, number = f"{name[:57]}-{number}", number + 1
    return found


def show_protocol(app: App, file: TrialFile) -> None:
    """Print the protocol file and its kernels. Raise an error if a kernel is missing or cannot be built."""
    sys.stdout.write(trial_text(file))
    sys.stdout.flush()
    look_at(app, file, allow_dangerous=True)
    lab = app.kernels.lab
    named = find_named_kernels(file, lab)
    kernels = {word: lab.identify(word) for word in dict.fromkeys(named.values())}
    assert file.guest is not None, "only trials in guests come here"
    refuse_unlike(file.guest, list(kernels.values()))
    plans = planned_kernels(file, workshop_of(app))
    refuse_same(file, plans)
    shown = {word: f"Linux {one.identity.release}, {one.place}" for word, one in kernels.items()}
    shown |= {plan.key: f"Linux {plan.version}, {plan.image or 'to be built'}" for plan in plans.values()}
    arms: dict[str, list[str]] = {}
    for name, key in {**named, **{name: plan.key for name, plan in plans.items()}}.items():
        arms.setdefault(key, []).append(name)
    for key, names in arms.items():
        app.say(f"{', '.join(names)}: {shown[key]}")


def read_trial_file(ctx: click.Context, words: tuple[str, ...]) -> TrialFile:
    """Return the protocol in the file that the first word names.

    Raise BadInput if the protocol is not for guests, or if another word or an option also describes the trial.
    """
    from ktrial.kit.files import read_file
    from ktrial.trial.protocol.read import parse_trial_file

    if len(words) > 1:
        raise BadInput(f"cannot combine {words[1]} with a protocol file", hint=f"leave out {words[1]}")
    for param in ctx.command.params:
        is_given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if is_given and param.name not in _WITH_FILE:
            option = param.opts[-1]
            raise BadInput(f"cannot combine {option} with a protocol file", hint=f"change {words[0]} instead")
    file = parse_trial_file(read_file(Path(words[0]), _LIMIT_BYTES), words[0])
    if file.guest is None:
        raise BadInput(
            "no [guest] table",
            file=words[0],
            hint=f"add the table, or run the trial on this machine with `ktrial trial run {words[0]}`",
        )
    return file
