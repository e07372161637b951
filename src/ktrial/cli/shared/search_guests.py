# SPDX-License-Identifier: Apache-2.0
"""Searches in guests: finds the guests and kernels of a space, estimates the time of a visit, and tries points."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ktrial.bench.guest_tools import GuestFailed
from ktrial.cli.shared.arm_kernels import workshop_of
from ktrial.cli.shared.guest_trials import scout
from ktrial.cli.shared.trial_options import guest_of
from ktrial.kit.errors import AgentError, BadInput, BadRun, Contradiction, KtrialError
from ktrial.studies.search.boots import boot_words
from ktrial.studies.search.dimension_file import BOOTED, booted_default, booted_value
from ktrial.studies.search.model import ProbeReply, ProbeRequest
from ktrial.studies.search.space import Dimension
from ktrial.trial.guests.guest_kernels import built_images, planned_kernels, refuse_same
from ktrial.trial.guests.model import check_guest_trial, kernel_of, place_of
from ktrial.trial.guests.prepare import refuse_unknown_words, refuse_unlike
from ktrial.trial.protocol.file import CONTROL, ArmFile, seconds

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.bench.guest_tools import GuestPlace
    from ktrial.cli.app import App
    from ktrial.studies.search.model import SearchQuestion
    from ktrial.studies.search.space import Point, Scalar, SpaceFile
    from ktrial.trial.protocol.file import GuestFile, TrialFile

_POINT = "this point"
#: What follows in an error is the end of the guest's console.
_CONSOLE = re.compile("; last lines of its console:|\n")
#: Why a point is refused, and the values that its kernel took instead.
Tried = tuple[str | None, dict[str, "Scalar"]]


class SearchGuests(NamedTuple):
    """The guests of a search; `kernels` maps each kernel word of the space to a path or a name."""

    guest: GuestFile
    kernels: Mapping[str, str]


def guests_of(app: App, file: SpaceFile, folder: Path, options: Mapping[str, Any]) -> SearchGuests | None:
    """Return the guests to search in; None for this machine. Raise BadInput for dimensions that cannot vary there.

    A kernel's path in the space is relative to `folder`.
    """
    guest = guest_of(options)
    booted = next((one for one in file.dimension if one.kinds[0] in BOOTED), None)
    if guest is None:
        if booted is not None:
            raise BadInput(
                f"cannot search {booted.name} on this machine: each of its values needs a boot",
                hint="add --guest; `ktrial kernel trial` compares a few values over boots of this machine",
            )
        return None
    if app.host is not None:
        raise BadInput(
            f"cannot search in guests with --host {app.host.word}: guests run on this machine", hint="leave out --host"
        )
    outside = next((one for one in file.dimension if one.kinds[0] in {"placeholder", "environment"}), None)
    if outside is not None:
        raise BadInput(
            f"cannot search {outside.name} in guests: guests measure suites, not your own command",
            hint=f"remove {outside.name} from the space, or leave out the options for guests",
        )
    if any(one.kconfig for one in file.dimension) and isinstance(guest.kernel, str):
        hint = "use --tree TREE instead of --kernel" if options["kernel"] else "add --tree TREE"
        raise BadInput("cannot search Kconfig symbols without kernel sources", hint=hint)
    words = [word for one in file.dimension for word in one.kernel or ()]
    if not words:
        return SearchGuests(guest, {})
    if options["kernel"] or options["tree"]:
        option = "--kernel" if options["kernel"] else "--tree"
        raise Contradiction(
            f"cannot combine {option} with a space that lists kernels to boot", hint=f"leave out {option}"
        )
    kernels = {word: str((folder / word).resolve()) if "/" in word else word for word in words}
    for path in kernels.values():
        app.kernels.lab.find(path)
    refuse_unlike(guest, [app.kernels.lab.identify(path) for path in kernels.values()])
    return SearchGuests(msgspec.structs.replace(guest, kernel=kernels[words[0]]), kernels)


@contextmanager
def planning_session(app: App, file: SpaceFile, trial: TrialFile) -> Iterator[AgentSession]:
    """Yield a session that shows the control's values: on this machine, or in a guest booted for the session."""
    if trial.guest is None or all(one.knob is None for one in file.dimension):
        yield app.best_session("planning the space")
        return
    given = [(one.name, booted_default(one)) for one in file.dimension if one.boot is not None]
    point = {name: value for name, value in given if value is not None}
    words = boot_words([Dimension(name=name, kind="boot", default=value) for name, value in point.items()], point)
    place = _place(app, msgspec.structs.replace(trial, arms={CONTROL: ArmFile(boot=words)}), CONTROL)
    with scout(app, place) as session:
        refuse_unknown_words(session, place)
        yield session


def symbol_defaults(app: App, file: SpaceFile, trial: TrialFile) -> dict[str, Scalar]:
    """Return the value of each Kconfig symbol of the space in the control's configuration."""
    wanted = [one for one in file.dimension if one.kconfig is not None]
    if not wanted:
        return {}
    control = msgspec.structs.replace(trial, arms={CONTROL: ArmFile()})
    symbols = planned_kernels(control, workshop_of(app))[CONTROL].symbols
    return {one.name: booted_value(one.name, symbols.get(str(one.kconfig), "n")) for one in wanted}


def kernel_text(app: App, question: SearchQuestion) -> str:
    """Return a text that identifies the control's kernel: its release and build, or the key of its recipe."""
    guest = question.trial.guest
    assert guest is not None, "only guests have a kernel of their own"
    if isinstance(guest.kernel, str):
        identity = app.kernels.lab.identify(guest.kernel).identity
        return f"{identity.release} {identity.build_id or ''}".strip()
    plan = workshop_of(app).plan(guest.kernel)
    return f"{plan.version} {plan.key}"


def guest_visit_seconds(app: App, file: TrialFile) -> float | None:
    """Return how long a visit takes with its boot, from the newest trial in guests of this kind, if any.

    Exact guests boot side by side; a visit may therefore take less time than its boot.
    """
    for stored in app.trials.all():
        if stored.file.guest is None or _kind(stored.file) != _kind(file):
            continue
        starts: dict[int, float] = {}
        visits: dict[int, set[str]] = {}
        for one in app.run_store.records(stored.session):
            if one.trial is not None and one.trial.block is not None:
                block, at_s = one.trial.block, one.started_unix_ms / 1000
                starts[block] = min(at_s, starts.get(block, at_s))
                visits.setdefault(block, set()).add(one.trial.arm)
        blocks = sorted(starts)
        each = [(starts[after] - starts[at]) / len(visits[at]) for at, after in itertools.pairwise(blocks)]
        if each:
            return statistics.median(each)
    return None


def _kind(file: TrialFile) -> object:
    assert file.guest is not None, "only trials in guests come here"
    guest = file.guest
    return file.suite, file.parameters, guest.mode, guest.memory, guest.cpus, guest.workloads


def _place(app: App, file: TrialFile, name: str) -> GuestPlace:
    """Return the guest in which to try an arm, with an ordinary clock. Build the kernel if it is missing."""
    guest, arm = file.guest, file.full_arms[name]
    assert guest is not None, "only trials in guests come here"
    kernel = kernel_of(file, arm)
    if not isinstance(kernel, str):
        workshop = workshop_of(app)
        plans = planned_kernels(file, workshop)
        refuse_same(file, plans)
        kernel = built_images({name: plans[name]}, workshop, app.say)[plans[name].key]
    tools = app.kernels.lab.swap_programs(kernel) if any(word.startswith("zram:") for word in arm.words) else ()
    place = place_of(file, arm, kernel, disk=False, limit_s=seconds(guest.limit, "limit"), tools=tools)
    mode = "kvm" if guest.mode == "kvm" else "emulated"
    return msgspec.structs.replace(place, shape=msgspec.structs.replace(place.shape, mode=mode))


class GuestProbes:
    """Tries points in guests before anything is measured, with one boot for each kernel and its arguments."""

    def __init__(self, app: App, question: SearchQuestion) -> None:
        self._app = app
        self._question = question

    def answer(self, probe: ProbeRequest, try_settings: Callable[[AgentSession, Point], Tried]) -> ProbeReply:
        """Return which points guests refuse, and which made a guest fail. `try_settings` sets a point in a session."""
        began_ns = self._app.clock.monotonic_ns()
        found: dict[int, Tried] = {}
        crashed: set[int] = set()
        groups: dict[GuestPlace, list[int]] = {}
        for at, point in enumerate(probe.points):
            self._app.interrupts.check()
            try:
                groups.setdefault(self._place_of(point), []).append(at)
            except KtrialError as error:
                found[at] = error.message, {}
        if groups:
            self._app.say(f"trying {len(probe.points)} points in {len(groups)} guests before measuring them")
        for place, numbers in groups.items():
            self._app.interrupts.check()
            crashed |= self._try_at(place, numbers, probe.points, try_settings, found)
        tried = [found[at] for at in range(len(probe.points))]
        return ProbeReply(
            refused=tuple(why for why, _ in tried),
            clamped=tuple(taken for _, taken in tried),
            crashed=tuple(at in crashed for at in range(len(probe.points))),
            seconds=(self._app.clock.monotonic_ns() - began_ns) / 1e9,
        )

    def _place_of(self, point: Point) -> GuestPlace:
        question = self._question
        arms = {CONTROL: question.arm(question.space.control), _POINT: question.arm(point)}
        file = msgspec.structs.replace(question.control_trial, arms=arms)
        check_guest_trial(file)
        return _place(self._app, file, _POINT)

    def _try_at(
        self,
        place: GuestPlace,
        numbers: Sequence[int],
        points: Sequence[Point],
        try_settings: Callable[[AgentSession, Point], Tried],
        found: dict[int, Tried],
    ) -> set[int]:
        """Try points in one guest, or in more if a point makes a guest fail. Return the points that made one fail."""
        left, crashed = list(numbers), set[int]()
        while left:
            is_up = False
            try:
                with scout(self._app, place) as session:
                    refuse_unknown_words(session, place)
                    is_up = True
                    while left:
                        found[left[0]] = try_settings(session, points[left[0]])
                        left.pop(0)
            except (GuestFailed, AgentError, BadRun, BadInput) as error:
                # A guest that does not come up fails for all of them.
                ended = left[:1] if is_up else left[:]
                found |= dict.fromkeys(ended, (f"in a guest: {_CONSOLE.split(error.message)[0]}", {}))
                if isinstance(error, GuestFailed | BadRun) or (isinstance(error, AgentError) and error.kind == "lost"):
                    crashed.update(ended)
                left = left[len(ended) :]
        return crashed
