# SPDX-License-Identifier: Apache-2.0
"""What `ktrial kernel bisect` puts together: a git tree, its builds, exact guests, the search."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrial.bench.guest_tools import GuestTool, Job, Shape
from ktrial.cli.app import App
from ktrial.cli.options import seconds
from ktrial.guests.agreement import boot_twice, settle_s
from ktrial.guests.boot import BootLimits
from ktrial.guests.programs import bring_for
from ktrial.kernels.build.commit_builds import CommitBuilds, CommitHistory
from ktrial.kernels.images.images import KernelFiles
from ktrial.kit.errors import BadInput
from ktrial.kit.units import parse_quantity
from ktrial.studies.bisect.bisect import BisectRequest, bisect
from ktrial.studies.bisect.measure import BisectMeasure

if TYPE_CHECKING:
    from ktrial.bench.guest_tools import GuestRun
    from ktrial.guests.programs import GuestFiles
    from ktrial.judge.model.bisect_answer import BisectAnswer
    from ktrial.studies.bisect.measure import Boot

_IMAGE = "arch/x86/boot/bzImage"
_REQUESTS = "/root/requests"
_LOAD_LIMIT_S = 600


class BisectQuery(NamedTuple):
    """The options of the command."""

    good: str
    bad: str
    program: tuple[str, ...]
    outcome: str
    parameters: tuple[str, ...]
    tree: Path
    config: Path | None
    builds: tuple[str, ...]
    image: str | None
    build_limit: str
    tools: tuple[str, ...]
    memory: str
    runs: int
    seed: int
    limit: str


def run_bisect(app: App, asked: BisectQuery) -> BisectAnswer:
    commands, image = _build(asked)
    shape, limit_s = _shape(asked), seconds(asked.limit, "--limit")
    build_limit_s = seconds(asked.build_limit, "--build-limit")
    name, job, brought = _work(asked)
    history = CommitHistory(asked.tree)
    good, bad = history.commit(asked.good), history.commit(asked.bad)
    commits = history.between(good, bad)
    app.say(f"{len(commits)} commit{'s'[: len(commits) != 1]} between {good[:12]} and {bad[:12]}")
    with (
        app.kernels.work_folder("bisect-") as folder,
        CommitBuilds(history, Path(folder) / "tree", commands, image, limit_s=build_limit_s) as builds,
    ):
        kernels = _Kernels(builds, Path(folder))
        measure = BisectMeasure(name, kernels.image, _boot(app, job, brought, shape, limit_s), asked.seed)
        wanted = BisectRequest(good, bad, commits, asked.outcome, asked.runs, asked.seed)
        return bisect(wanted, measure, app.say)


class _Kernels:
    """Images of commits, each built once and kept in a folder."""

    def __init__(self, builds: CommitBuilds, folder: Path) -> None:
        self._builds = builds
        self._folder = folder

    def image(self, commit: str) -> bytes:
        place = self._folder / commit
        if not place.is_file():
            place.write_bytes(self._builds.image(commit))
        return place.read_bytes()


def _build(asked: BisectQuery) -> tuple[tuple[str, ...], str]:
    """Return commands for a shell, and the file that they write."""
    if asked.builds:
        if asked.image is None:
            raise BadInput("--build needs --image", hint="--image PATH is the kernel that it writes, in the tree")
        return asked.builds, asked.image
    if asked.config is None:
        raise BadInput("without a configuration there is nothing to build", hint="--config FILE, or --build COMMAND")
    if not asked.config.is_file():
        raise BadInput("no such file", file=str(asked.config))
    image = asked.image or _IMAGE
    configure = f"cp {shlex.quote(str(asked.config.resolve()))} .config && make olddefconfig"
    return (configure, f"make -j{os.cpu_count() or 1} {shlex.quote(image.rpartition('/')[2])}"), image


def _shape(asked: BisectQuery) -> Shape:
    try:
        memory_bytes = int(parse_quantity(asked.memory, "bytes"))
    except ValueError as error:
        raise BadInput(f"--memory: {error}") from None
    return Shape(mode="exact", memory_bytes=memory_bytes, cpus=1)


def _work(asked: BisectQuery) -> tuple[str, Job, GuestFiles]:
    """Return the result that is read, what runs in the guests, and what is put into them."""
    if asked.program:
        if asked.parameters:
            raise BadInput("-p is for a load of the agent's", hint="write PROGRAM's own arguments behind it")
        brought, program = bring_for(asked.program, asked.tools)
        name = asked.outcome.rpartition(".")[2]
    else:
        load, dot, name = asked.outcome.partition(".")
        if not dot:
            raise BadInput(
                f"--outcome {asked.outcome}", hint="for example wakeup.p99_ns; or give a program: -- PROGRAM"
            )
        request = {"id": 1, "do": "load", "load": load, "parameters": _parameters(asked), "limit_s": _LOAD_LIMIT_S}
        brought, _ = bring_for((), asked.tools)
        brought.files[_REQUESTS] = json.dumps(request).encode() + b"\n"
        program = GuestTool(argv=("ktrial-agent", "batch", "--role", "user", _REQUESTS))
    return name, Job(programs=() if program is None else (program,), settle_s=settle_s("exact")), brought


def _parameters(asked: BisectQuery) -> dict[str, object]:
    found: dict[str, object] = {}
    for word in asked.parameters:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise BadInput(f"-p {word}: no parameter", hint="write for example -p rate_per_s=100")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _boot(app: App, job: Job, brought: GuestFiles, shape: Shape, limit_s: float) -> Boot:
    """Return boots the image of a commit with a word on its command line."""

    def boot(image: bytes, word: str, twice: bool) -> GuestRun:
        kernel = KernelFiles("a commit", "the image of a commit", image)
        guests = app.kernels.guests_for(kernel)
        machine = msgspec.structs.replace(shape, append=(word,))

        def run(shape: Shape, limit_s: float, begin_limit_s: float | None = None) -> GuestRun:
            return guests.boot(kernel, job, brought, shape, BootLimits(limit_s, begin_limit_s))

        return boot_twice(machine, limit_s, run, guests).run if twice else run(machine, limit_s)

    return boot
