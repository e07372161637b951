# SPDX-License-Identifier: Apache-2.0
"""Which benchmarks can run here, why others cannot, and what would change that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from ktrial.bench.benchmark import Benchmark, Parameters, Probe
from ktrial.bench.guest_tools import GuestTools
from ktrial.bench.run.ports import Executor
from ktrial.bench.tool_files import recipe_for
from ktrial.kit.errors import KtrialError

PackageTool = Literal["apt", "dnf", "pacman", "zypper"]
#: Package tool -> (program that tells its presence, command that installs).
_TOOLS: dict[PackageTool, tuple[str, str]] = {
    "apt": ("apt-get", "sudo apt install"),
    "dnf": ("dnf", "sudo dnf install"),
    "pacman": ("pacman", "sudo pacman -S"),
    "zypper": ("zypper", "sudo zypper install"),
}
#: The next step for a program that is not in the container's image.
IN_CONTAINER = "put it into the image, or let `ktrial tools container` make one"
#: The programs that tell which package tool there is.
PACKAGE_PROGRAMS = tuple(program for program, _ in _TOOLS.values())


#: What a benchmark needs is a program, or a file of the kernel when it begins so.
KERNEL_FILES = "/sys/"


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a benchmark can run here: `why` not and the `next` step are null when it can."""

    benchmark: str
    what: str
    why: str | None = None
    next: str | None = None

    @property
    def ready(self) -> bool:
        return self.why is None


def is_program(benchmark: Benchmark) -> bool:
    """Return whether it is a program that needs nothing but its libraries, so that a guest can have it."""
    return bool(getattr(benchmark, "standalone", False))


def examine(benchmarks: Iterable[Benchmark], executor: Executor) -> tuple[Availability, ...]:
    """Look for each benchmark's programs, in order, and ask those that are there where asking is needed."""
    return examine_with(((benchmark, {}) for benchmark in benchmarks), executor)


def examine_with(asked: Iterable[tuple[Benchmark, Parameters]], executor: Executor) -> tuple[Availability, ...]:
    """Return the same of benchmarks that will run with these parameters."""
    asked = list(asked)
    benchmarks = [benchmark for benchmark, _ in asked]
    wanted = [name for benchmark in benchmarks for name in benchmark.needs]
    programs = executor.programs([*wanted, *PACKAGE_PROGRAMS])
    tool = package_tool(programs)
    return tuple(_examine(benchmark, parameters, executor, programs, tool) for benchmark, parameters in asked)


def package_tool(programs: Mapping[str, str | None]) -> PackageTool | None:
    """Return the package tool of this machine, as far as its presence tells."""
    return next((tool for tool, (program, _) in _TOOLS.items() if programs.get(program)), None)


def install_command(packages: Mapping[str, str], tool: PackageTool | None) -> str | None:
    """Return the command that installs, for this package tool; None when there is none or no package is known."""
    return f"{_TOOLS[tool][1]} {packages[tool]}" if tool is not None and tool in packages else None


def _answer(probe: Probe, parameters: Parameters, executor: Executor) -> str | None:
    """Return why it cannot work; None also where nobody could be asked: its runs will tell."""
    try:
        raw = executor.run(probe.invocation(parameters)).raw
    except KtrialError:
        return None
    if raw.interrupted:
        raise KeyboardInterrupt
    return probe.why_not(raw)


def _examine(
    benchmark: Benchmark,
    parameters: Parameters,
    executor: Executor,
    programs: Mapping[str, str | None],
    tool: PackageTool | None,
) -> Availability:
    lacking = None if executor.guest is None else _lacking(benchmark, executor.guest, programs)
    if lacking is not None:
        return Availability(benchmark=benchmark.name, what=benchmark.what, why=lacking[0], next=lacking[1])
    return _examined(benchmark, parameters, executor, programs, tool)


def _lacking(benchmark: Benchmark, guest: GuestTools, programs: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Return why a guest that is the host has not what a benchmark needs, and the next step; None if it has."""
    beyond: str | None = getattr(benchmark, "beyond_exact", None)
    if guest.exact and beyond is not None:
        return f"an exact guest tells nothing of it: {beyond}", "--host guest:KERNEL measures it in one that talks"
    needed = [name for name in benchmark.needs if "/" not in name]
    if needed and not is_program(benchmark):
        return "it needs more than a program and its libraries, and a guest has nothing else", "measure it on a machine"
    absent = [name for name in needed if programs.get(name) is None]
    if not absent:
        return None
    names, verb = ", ".join(absent), "is" if len(absent) == 1 else "are"
    if guest.foreign:
        return f"{names} of this machine cannot run in a guest of another architecture", "take loads of the agent's own"
    tools = " ".join(f"--tool {name}" for name in absent)
    if guest.kept is not None:
        again = f"ktrial kernel boot KERNEL --keep {guest.kept} {tools}"
        return f"{names} {verb} not in the guest {guest.kept}", f"end it, boot it with what it is to have: `{again}`"
    if not guest.found.keys() >= set(absent):
        return (
            f"{names} {verb} not in the guest",
            f"`ktrial kernel boot KERNEL --keep NAME {tools}` keeps one that has it",
        )
    step = install_command(benchmark.packages, package_tool(guest.found))
    if step is None and (recipe := recipe_for(absent)) is not None:
        step = f"ktrial tools get {recipe.name}"
    return f"{names} {verb} not installed on this machine, which guests have it from", step or "install it by hand"


def _examined(
    benchmark: Benchmark,
    parameters: Parameters,
    executor: Executor,
    programs: Mapping[str, str | None],
    tool: PackageTool | None,
) -> Availability:
    why: str | None = None
    step: str | None = None
    absent = [name for name in benchmark.needs if programs.get(name) is None]
    unseen = [name for name in absent if name.startswith(KERNEL_FILES)]
    if unseen:
        why, step = (
            f"there is no {unseen[0]} here",
            "run it on hardware that does; guests and containers rarely do",
        )
    elif absent:
        why = f"{', '.join(absent)} is not installed" if len(absent) == 1 else f"{', '.join(absent)} are not installed"
        step = install_command(benchmark.packages, tool) or "install it by hand"
        if executor.container is not None:
            step = IN_CONTAINER
        elif (tool or "") not in benchmark.packages and (recipe := recipe_for(absent)) is not None:
            step = f"ktrial tools get {recipe.name}"
        elif tool is None and benchmark.packages:
            step = "install " + ", ".join(f"{name} ({where})" for where, name in benchmark.packages.items())
    elif benchmark.root_reason is not None and not executor.has_root:
        why = f"needs root: {benchmark.root_reason}"
        step = "run ktrial through sudo" + (" without --tools" if executor.container is not None else "")
    elif benchmark.user_reason is not None and executor.runs_as_root:
        why = f"cannot run as root: {benchmark.user_reason}"
        step = "run ktrial as an ordinary user, or through sudo from one"
    elif not benchmark.needs and not executor.has_loads:
        why = "this agent has no loads of its own"
        step = "run ./ktrial once more to build the agent anew"
    elif benchmark.probe is not None:
        why = _answer(benchmark.probe, {**benchmark.parameters, **parameters}, executor)
        step = benchmark.probe.next if why is not None else None
    return Availability(benchmark=benchmark.name, what=benchmark.what, why=why, next=step)
