# SPDX-License-Identifier: Apache-2.0
"""Prepares a guest trial: its kernels and its arms on each kernel, with errors for what cannot be tried."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec

from ktrial.bench.availability import is_program
from ktrial.bench.benchmark import Benchmark
from ktrial.bench.guest_tools import GuestPlace, GuestRun, Job
from ktrial.bench.suite import Suite, Task
from ktrial.bench.suites import tasks_of
from ktrial.kernels.identity import KernelFound, without_target
from ktrial.kit.errors import AgentError, BadInput, KtrialError, Refused
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.machine.watch_kernel_log import look
from ktrial.trial.arms.arms import rehearse
from ktrial.trial.arms.plan_arms import (
    arm_plans,
    arm_settings,
    found_values,
    with_placebos,
)
from ktrial.trial.guests.guest_kernels import UNLIKE_HINT, KernelWords, as_built
from ktrial.trial.guests.guest_visit import needs_disk
from ktrial.trial.guests.model import kernel_of, place_of
from ktrial.trial.guests.programs import tools_of
from ktrial.trial.guests.recipe import KernelChange
from ktrial.trial.protocol.file import ArmFile, GuestFile, TrialFile, seconds
from ktrial.trial.protocol.protocol import outcomes_around, protocol_of
from ktrial.trial.record import ArmSettings
from ktrial.trial.run.ports import TrialWorld
from ktrial.trial.run.prepare import Prepared, arm_tasks, needed_suite
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.profile import flatten
from ktrial.tuning.plans.model import Plan

#: The kernel's message about unknown words. Kernels do not report words with a dot, which are for modules.
_UNKNOWN = re.compile(r'Unknown kernel command line parameters "(.*)", will be passed')
#: Properties of kernels that change the cost of instructions, which an exact guest cannot measure.
_COMPILED = {"compiler": "compilers", "lto": "LTO", "optimised": "CPUs that they are optimised for"}


class GuestLab(Protocol):
    """Boots guests. A place is a virtual machine with its kernel, a job is what runs in it."""

    @property
    def workers(self) -> int:
        """Number of exact guests that may run at the same time."""

    def why_no_kvm(self, kernel: str) -> str | None:
        """Return why this kernel cannot run with KVM; None if it can."""

    def find(self, kernel: str) -> None:
        """Raise BadInput if guests cannot boot this kernel, for example because it does not exist."""

    def identify(self, kernel: str) -> KernelFound: ...

    def swap_programs(self, kernel: str) -> tuple[str, ...]:
        """Return the paths of the programs that an agent needs to set up swap in guests with this kernel."""

    def prepare(self, place: GuestPlace) -> None: ...

    def boot(self, place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> GuestRun: ...

    def stop(self) -> None: ...


#: Opens a guest in which an agent answers as root.
Scout = Callable[[GuestPlace], AbstractContextManager[Machine]]


class GuestMeans(NamedTuple):
    """Everything that guest trials need: a lab that boots guests, a scout that opens a guest, and each arm's kernel."""

    lab: GuestLab
    scout: Scout
    kernels: KernelWords


class GuestReady(NamedTuple):
    """A guest trial that is ready to begin. `tools` maps programs that guests need to their paths on this machine."""

    ready: Prepared
    places: Mapping[str, GuestPlace]
    tools: Mapping[str, str] = {}


def prepare_in_guests(
    world: TrialWorld,
    file: TrialFile,
    suite: Suite,
    benchmarks: Mapping[str, Benchmark],
    means: GuestMeans,
    *,
    allow_dangerous: bool,
) -> GuestReady:
    """Return the guest trial with everything that its protocol names, ready to begin.

    Raise an error if something is missing, before anything is measured.
    """
    lab = means.lab
    guest = file.guest
    assert guest is not None, "only trials in guests come here"
    file = msgspec.structs.replace(file, design=msgspec.structs.replace(file.design, replicate="boot"))
    suite = needed_suite(file, suite, benchmarks)
    wanted = tasks_of(suite, benchmarks, FactBook({}), None)
    refuse_what_guests_cannot(guest, suite, wanted)
    _refuse_no_question(file, suite, wanted)
    disk = any(needs_disk(task.parameters) for task in wanted)
    limit_s = seconds(guest.limit, "limit")
    tools = tools_of(wanted, world.executor) if any(is_program(task.benchmark) for task in wanted) else {}
    find_named_kernels(file, lab)
    words = means.kernels(file)
    swap = lab.swap_programs(words[file.control]) if _sets_swap_up(file, world.catalog) else ()
    brought = (*tools.values(), *swap)
    places = {
        name: place_of(file, arm, words[name], disk=disk, limit_s=limit_s, tools=brought)
        for name, arm in file.full_arms.items()
    }
    kernels = {place.kernel: lab.identify(place.kernel) for place in places.values()}
    refuse_unlike(guest, list(kernels.values()))
    for kernel in kernels if guest.mode == "kvm" else ():
        if (why := lab.why_no_kvm(kernel)) is not None:
            raise KtrialError(f"cannot use KVM: {why}", hint='use --mode emulated (in a protocol: mode = "emulated")')
    for place in places.values():
        lab.prepare(place)
    plans, facts = _scouted(world, file, places, means.scout, allow_dangerous=allow_dangerous)
    tasks = tasks_of(suite, benchmarks, facts, None)
    plans = {name: as_built(plan, kernels[places[name].kernel].symbols) for name, plan in plans.items()}
    arms = _with_kernels(file, places, kernels, arm_settings(file, plans))
    file, idle = with_placebos(file, arms)
    ready = Prepared(
        file=file,
        suite=suite,
        tasks=tasks,
        own_tasks=arm_tasks(file, suite, benchmarks, facts, None),
        facts=facts,
        plans=plans,
        arms=arms,
        idle=idle,
        root=None,
        settle_s=0.0,
        seed=secrets.randbelow(2**32) if file.design.seed is None else file.design.seed,
    )
    return GuestReady(ready, places, tools)


def refuse_before_building(file: TrialFile, suite: Suite, benchmarks: Mapping[str, Benchmark]) -> None:
    """Raise an error for a protocol that compares nothing, before ktrial builds kernels for it."""
    suite = needed_suite(file, suite, benchmarks)
    _refuse_no_question(file, suite, tasks_of(suite, benchmarks, FactBook({}), None))


def _refuse_no_question(file: TrialFile, suite: Suite, tasks: Sequence[Task]) -> None:
    """Raise an error for a protocol that compares nothing.

    An arm with the control's kernel and command line may turn out to be a placebo, and counts as one. If all arms are
    like that, the first one does not count as a placebo: the trial must compare something.
    """
    workloads = file.guest.workloads if file.guest is not None else 1
    control = file.arms[file.control]
    asked = [name for name, arm in file.arms.items() if name != file.control and not arm.placebo]
    idle = [name for name in asked if _boots_alike(file.arms[name], control)]
    idle = idle[1:] if idle == asked else idle
    arms = {
        name: msgspec.structs.replace(arm, placebo=True) if name in idle else arm for name, arm in file.arms.items()
    }
    counted = msgspec.structs.replace(file, arms=arms)
    protocol_of(counted, tasks, {}, file.design.seed or 0, None, workloads, outcomes_around(suite))


def _boots_alike(one: ArmFile, other: ArmFile) -> bool:
    return (one.kernel, one.boot) == (other.kernel, other.boot)


def refuse_what_guests_cannot(guest: GuestFile, suite: Suite, tasks: Sequence[Task]) -> None:
    """Raise an error for a load or benchmark that guests cannot run, or that an exact guest's clock cannot judge."""
    if suite.load is not None and suite.load.use != "spin":
        raise BadInput(
            f"cannot run {suite.name} in guests: its background load is a program of this machine",
            hint='choose another suite, or give its load  use = "spin"  in a suite file of your own',
        )
    for task in tasks:
        if not (is_program(task.benchmark) or _is_own(task)):
            raise BadInput(
                f"cannot run {task.label} in guests: it is neither a load of the agent nor a program for guests",
                hint="use agent-…, perf-…, hackbench, cyclictest, schbench, stress-ng, sysbench or synthmark",
            )
        why = getattr(task.benchmark, "beyond_exact", None)
        if guest.mode == "exact" and why is not None:
            raise Refused(
                f"cannot measure {task.label} in an exact guest: {why}",
                hint='use --mode kvm or emulated (in a protocol: mode = "kvm")',
            )


def _is_own(task: Task) -> bool:
    load = task.benchmark.invocation(task.parameters, FactBook({})).load
    return load is not None and not load.as_root


def find_named_kernels(file: TrialFile, lab: GuestLab) -> dict[str, str]:
    """Return the kernel of each arm that names a kernel. The error for a missing kernel names the arm."""
    found = {}
    for name, arm in file.full_arms.items():
        kernel = kernel_of(file, arm)
        if isinstance(kernel, str):
            try:
                lab.find(kernel)
            except KtrialError as error:
                error.message = f"arm {name}: {error.message}"
                raise
            found[name] = kernel
    return found


def refuse_unlike(guest: GuestFile, kernels: Sequence[KernelFound]) -> None:
    """Raise an error for kernels of two architectures, and for a difference that an exact guest cannot measure."""
    for one in kernels[1:]:
        first = kernels[0]
        if one.identity.architecture != first.identity.architecture:
            raise BadInput(
                f"cannot compare {first.name} ({first.identity.architecture}) with {one.name} "
                f"({one.identity.architecture}) in guests",
                hint="compare kernels for the same architecture",
            )
    if guest.mode == "exact":
        _refuse_compilers(kernels)


def _refuse_compilers(found: Sequence[KernelFound]) -> None:
    """Raise Refused if two kernels differ in a property that an exact guest cannot measure."""
    for one in found[1:]:
        for field, what in _COMPILED.items():
            pair = (_plain(found[0], field), _plain(one, field))
            if pair[0] != pair[1]:
                raise Refused(
                    f"cannot compare {found[0].name} and {one.name} in exact guests: they differ in their {what} "
                    f"({pair[0]}, {pair[1]})",
                    hint=UNLIKE_HINT,
                )


def _plain(kernel: KernelFound, field: str) -> object:
    """Return a property of a kernel; if it is text, such as the compiler's name, without the target."""
    value = getattr(kernel.identity, field)
    return without_target(value) if isinstance(value, str) else value


def _scouted(
    world: TrialWorld,
    file: TrialFile,
    places: Mapping[str, GuestPlace],
    scout: Scout,
    *,
    allow_dangerous: bool,
) -> tuple[dict[str, Plan], FactBook]:
    """Boot a guest for each kernel and command line. Return what each arm changes there, and the control's facts.

    A race has many arms, whose kernel arguments `ktrial search` has tried already.
    """
    plans: dict[str, Plan] = {}
    arms = file.full_arms
    facts: FactBook | None = None
    for place, names in _by_place(file, places):
        asks = file.baseline != "found" or any(arms[name].words for name in names)
        if not (asks or (place.shape.append and not file.race) or file.control in names):
            plans |= {name: Plan(title=name, changes=(), same=(), refusals=()) for name in names}
            continue
        with scout(place) as root:
            refuse_unknown_words(root, place)
            own = arm_plans(file, root, world.catalog, allow_dangerous=allow_dangerous, only=names)
            try:
                rehearse(root, own, world.catalog.knobs)
            except AgentError as error:
                error.message = f"cannot try {', '.join(names)} in a guest: {error.message}"
                raise
            plans |= own
            if file.control in names:
                facts = root.facts()
    assert facts is not None, "the control has a place"
    return {name: plans[name] for name in file.arms}, facts


def _sets_swap_up(file: TrialFile, catalog: Catalog) -> bool:
    """Return whether an arm sets up swap. In that case, all guests get the programs that the agent needs for swap."""
    for word in (word for arm in file.full_arms.values() for word in arm.words):
        settings = flatten(word, catalog.profiles) if word in catalog.profiles else ()
        if any(name.startswith("zram:") for name in (word, *(setting.knob for setting in settings))):
            return True
    return False


def plans_in_guests(
    file: TrialFile,
    scout: Scout,
    words: Mapping[str, str],
    plans_of: Callable[[Machine, Collection[str]], Mapping[str, Plan]],
    tools: tuple[str, ...] = (),
) -> dict[str, Plan]:
    """Return each arm's plan, made in a guest with the arm's kernel (from `words`) and command line.

    `tools` are programs that arms may need in the guest.
    """
    limit_s = seconds((file.guest or GuestFile()).limit, "limit")
    places = {
        name: place_of(file, arm, words[name], disk=False, limit_s=limit_s, tools=tools)
        for name, arm in file.full_arms.items()
    }
    found: dict[str, Plan] = {}
    for place, names in _by_place(file, places):
        with scout(place) as root:
            refuse_unknown_words(root, place)
            found |= plans_of(root, names)
    return {name: found[name] for name in file.arms}


def refuse_unknown_words(root: Machine, place: GuestPlace) -> None:
    """Raise BadInput for a kernel argument that the kernel does not know, because its arm would be a placebo."""
    said = (_UNKNOWN.search(record.text) for record in look(root, 0).records) if place.shape.append else ()
    unknown = {word for match in said if match is not None for word in match[1].split()}
    found = [word for word in place.shape.append if word in unknown]
    if found:
        raise BadInput(
            f"{place.kernel} does not know {found[0]} on its command line",
            hint="check the spelling, or use another kernel",
        )


def _by_place(file: TrialFile, places: Mapping[str, GuestPlace]) -> Iterator[tuple[GuestPlace, Collection[str]]]:
    """Yield each place once, with its arms. An exact guest becomes an emulated one.

    A screening has an arm for every set of kernel arguments that it draws. Plans do not depend on these arguments, so
    its arms share places.
    """
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, place in places.items():
        found.setdefault((place.kernel, place.shape.append if file.screen is None else ()), []).append(name)
    for names in found.values():
        place = places[names[0]]
        mode = "kvm" if place.shape.mode == "kvm" else "emulated"
        yield msgspec.structs.replace(place, shape=msgspec.structs.replace(place.shape, mode=mode)), names


def _with_kernels(
    file: TrialFile,
    places: Mapping[str, GuestPlace],
    kernels: Mapping[str, KernelFound],
    arms: Mapping[str, ArmSettings],
) -> dict[str, ArmSettings]:
    """Return the arms with their own kernels and kernel arguments added to their changes."""
    usual, full = places[file.control].kernel, file.full_arms
    found = {}
    for name, arm in arms.items():
        place, given = places[name], full[name]
        kernel = {} if place.kernel == usual else {"kernel": _kernel_identity(kernels[place.kernel])}
        own = given.kernel.told if isinstance(given.kernel, KernelChange) else {}
        words = {f"boot:{word.partition('=')[0]}": word.partition("=")[2] for word in given.boot}
        found[name] = msgspec.structs.replace(arm, changes={**kernel, **own, **words, **arm.changes})
    return found


def _kernel_identity(kernel: KernelFound) -> str:
    """Return a kernel's release and build id, so that two builds of a release differ."""
    build_id = kernel.identity.build_id
    return f"{kernel.identity.release}{f', build {build_id[:12]}' if build_id else ''}"


def found_in_guests(
    ready: Prepared, places: Mapping[str, GuestPlace], kernels: Callable[[str], KernelFound]
) -> dict[str, str]:
    """Return the control's values of everything that the arms change, and the identity of the control's kernel."""
    return {**found_values(ready.plans), "kernel": _kernel_identity(kernels(places[ready.file.control].kernel))}
