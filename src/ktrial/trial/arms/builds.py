# SPDX-License-Identifier: Apache-2.0
"""Defines how each arm of a trial with builds is built, and finds which build each visit measured."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ktrial.kit.errors import BadInput, Contradiction

if TYPE_CHECKING:
    from ktrial.judge.model.log import Event
    from ktrial.trial.protocol.file import TrialFile

#: The environment variable with the number that is drawn for the visit, for the build command.
NUMBER_VARIABLE = "KTRIAL_BUILD"
#: Facts that distinguish one kernel build from another.
KERNEL_BUILD = ("kernel.build_id", "kernel.version")

Visit = tuple[int, str]


def check_builds(trial: TrialFile) -> None:
    """Raise BadInput for an arm without a build in a trial with builds, or for an arm with a build in another trial."""
    arms = {name: arm for name, arm in trial.arms.items() if not arm.placebo}
    built = [name for name, arm in arms.items() if arm.build is not None]
    for name in built:
        build = arms[name].build
        if build is not None and not (build.run and build.run[0] and build.artefact):
            raise BadInput(f"arm {name}: `build` needs a command (`run`) and its file (`artefact`)", hint=_EXAMPLE)
    if trial.design.replicate != "build":
        if built:
            raise BadInput(
                f"arm {built[0]}: `build` needs a trial that builds for every visit",
                hint='add  [design]  replicate = "build", or build the program once, before the trial',
            )
        return
    if any(arm.manual is not None for arm in arms.values()):
        if built:
            raise Contradiction(
                f"arm {built[0]} is built by a command, but other arms are kernels that you boot by hand",
                hint="build all arms by hand, or none",
            )
        return
    unsaid = next((name for name in arms if name not in built), None)
    if unsaid is not None:
        raise BadInput(f'replicate = "build" needs a build in each arm, but arm {unsaid} has none', hint=_EXAMPLE)


_EXAMPLE = (
    'for example  build = { run = ["./build.sh"], artefact = "prog" }; '
    'a kernel that you build and boot yourself needs  manual = "…"'
)


def build_number(seed: int, block: int | None, arm: str) -> int:
    """Return the number by which a visit's build varies. Only seed, block and arm determine this number."""
    said = f"{seed} {'warm-up' if block is None else block} {arm}"
    return int.from_bytes(hashlib.sha256(said.encode()).digest()[:4])


def builds_of(log: Iterable[Event]) -> dict[Visit, str]:
    """Return the build of each visit for which the log names a build, including visits of void blocks."""
    from ktrial.judge.model.log import ArmBuilt, ArmFound

    found: dict[Visit, str] = {}
    for event in log:
        if isinstance(event, ArmBuilt):
            found[event.block, event.arm] = event.sha256
        elif isinstance(event, ArmFound) and (told := kernel_build(event.facts)) is not None:
            found[event.block, event.arm] = told
    return found


def kernel_build(facts: Mapping[str, str]) -> str | None:
    """Return the facts that identify this build of a kernel, as one text; None if there are none."""
    return " ".join(facts[name] for name in KERNEL_BUILD if facts.get(name)) or None


def repeated(builds: Mapping[Visit, str]) -> dict[str, tuple[int, int]]:
    """Return the arms that measured a build in several visits, with the number of builds and of visits."""
    arms = dict.fromkeys(arm for _, arm in builds)
    counts = {name: Counter(build for (_, arm), build in builds.items() if arm == name) for name in arms}
    return {name: (len(count), count.total()) for name, count in counts.items() if len(count) < count.total()}
