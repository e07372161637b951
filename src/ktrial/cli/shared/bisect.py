# SPDX-License-Identifier: Apache-2.0
"""Runs `ktrial kernel bisect`, which connects a git tree, its builds, exact guests and the search."""

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
    """The options of `ktrial kernel bisect`."""

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


def run_bisect(app: App, query: BisectQuery) -> BisectAnswer:
    commands, image = _build(query)
    shape, limit_s = _shape(query), seconds(query.limit, "--limit")
    build_limit_s = seconds(query.build_limit, "--build-limit")
    name, job, guest_files = _work(query)
    history = CommitHistory(query.tree)
    good, bad = history.commit(query.good), history.commit(query.bad)
    commits = history.between(good, bad)
    app.say(f"{len(commits)} commit{'s'[: len(commits) != 1]} between {good[:12]} and {bad[:12]}")
    with (
        app.kernels.work_folder("bisect-") as folder,
        CommitBuilds(history, Path(folder) / "tree", commands, image, limit_s=build_limit_s) as builds,
    ):
        kernels = _Kernels(builds, Path(folder))
        measure = BisectMeasure(name, kernels.image, _boot(app, job, guest_files, shape, limit_s), query.seed)
        request = BisectRequest(good, bad, commits, query.outcome, query.runs, query.seed)
        return bisect(request, measure, app.say, lambda: app.clock.monotonic_ns() / 1e9)


class _Kernels:
    """Kernel images of commits, each built once and stored in a folder."""

    def __init__(self, builds: CommitBuilds, folder: Path) -> None:
        self._builds = builds
        self._folder = folder

    def image(self, commit: str) -> bytes:
        place = self._folder / commit
        if not place.is_file():
            place.write_bytes(self._builds.image(commit))
        return place.read_bytes()


def _build(query: BisectQuery) -> tuple[tuple[str, ...], str]:
    if query.builds:
        if query.image is None:
            raise BadInput("--build requires --image", hint="add --image PATH, the kernel image that the build writes")
        return query.builds, query.image
    if query.config is None:
        raise BadInput(
            "no kernel configuration",
            hint="add --config FILE (`ktrial kernel config` writes one), or --build COMMAND and --image PATH",
        )
    if not query.config.is_file():
        raise BadInput("no such file", file=str(query.config), hint="check the path")
    image = query.image or _IMAGE
    configure = f"cp {shlex.quote(str(query.config.resolve()))} .config && make olddefconfig"
    return (configure, f"make -j{os.cpu_count() or 1} {shlex.quote(image.rpartition('/')[2])}"), image


def _shape(query: BisectQuery) -> Shape:
    try:
        memory_bytes = int(parse_quantity(query.memory, "bytes"))
    except ValueError as error:
        raise BadInput(f"--memory: {error}", hint="for example  --memory 512MiB") from None
    return Shape(mode="exact", memory_bytes=memory_bytes, cpus=1)


def _work(query: BisectQuery) -> tuple[str, Job, GuestFiles]:
    """Return the outcome's name, what the guests run, and the files to put into them."""
    if query.program:
        if query.parameters:
            raise BadInput("cannot combine -p with PROGRAM", hint="write the arguments after PROGRAM")
        guest_files, program = bring_for(query.program, query.tools)
        name = query.outcome.rpartition(".")[2]
    else:
        load, dot, name = query.outcome.partition(".")
        if not dot:
            raise BadInput(
                f"--outcome: expected LOAD.RESULT, got {query.outcome}",
                hint="name an outcome of a load, such as wakeup.p99_ns, or add -- PROGRAM",
            )
        request = {"id": 1, "do": "load", "load": load, "parameters": _parameters(query), "limit_s": _LOAD_LIMIT_S}
        guest_files, _ = bring_for((), query.tools)
        guest_files.files[_REQUESTS] = json.dumps(request).encode() + b"\n"
        program = GuestTool(argv=("ktrial-agent", "batch", "--role", "user", _REQUESTS))
    return name, Job(programs=() if program is None else (program,), settle_s=settle_s("exact")), guest_files


def _parameters(query: BisectQuery) -> dict[str, object]:
    parameters: dict[str, object] = {}
    for word in query.parameters:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise BadInput(f"-p: expected NAME=VALUE, got {word}", hint="for example  -p rate_per_s=100")
        try:
            parameters[name] = json.loads(value)
        except ValueError:
            parameters[name] = value
    return parameters


def _boot(app: App, job: Job, guest_files: GuestFiles, shape: Shape, limit_s: float) -> Boot:

    def boot(image: bytes, word: str, twice: bool) -> GuestRun:
        kernel = KernelFiles("a commit", "the image of a commit", image)
        guests = app.kernels.guests_for(kernel)
        machine = msgspec.structs.replace(shape, append=(word,))

        def run(shape: Shape, limit_s: float, begin_limit_s: float | None = None) -> GuestRun:
            return guests.boot(kernel, job, guest_files, shape, BootLimits(limit_s, begin_limit_s))

        return boot_twice(machine, limit_s, run, guests).run if twice else run(machine, limit_s)

    return boot
