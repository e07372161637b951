# SPDX-License-Identifier: Apache-2.0
"""Which benchmarks can run here, why others cannot, and how to change that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from ktrial.bench.benchmark import Benchmark, Parameters, Probe
from ktrial.bench.guest_tools import GuestTools
from ktrial.bench.run.ports import Executor, run_or_stop
from ktrial.bench.tool_files import recipe_for
from ktrial.kit.errors import KtrialError

PackageTool = Literal["apt", "dnf", "pacman", "zypper"]
#: Package manager -> (program whose presence reveals it, install command).
_TOOLS: dict[PackageTool, tuple[str, str]] = {
    "apt": ("apt-get", "sudo apt install"),
    "dnf": ("dnf", "sudo dnf install"),
    "pacman": ("pacman", "sudo pacman -S"),
    "zypper": ("zypper", "sudo zypper install"),
}
#: The next step if a program is missing from the container's image.
IN_CONTAINER = "use an image with the program (`ktrial tools container` builds one with the packaged benchmark tools)"
#: Programs whose presence reveals the package manager.
PACKAGE_PROGRAMS = tuple(program for program, _ in _TOOLS.values())
#: Beginning of `needs` entries that are kernel files, not programs.
KERNEL_FILES = "/sys/"


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a benchmark can run here; if not, `why`, and the `next` step."""

    benchmark: str
    what: str
    why: str | None = None
    next: str | None = None

    @property
    def ready(self) -> bool:
        return self.why is None


def is_program(benchmark: Benchmark) -> bool:
    """Return whether the benchmark needs only programs and their libraries, which are all that a guest has."""
    return bool(getattr(benchmark, "standalone", False))


def examine(benchmarks: Iterable[Benchmark], executor: Executor) -> tuple[Availability, ...]:
    """Check which benchmarks can run: look for their programs and run their probes."""
    return examine_with(((benchmark, {}) for benchmark in benchmarks), executor)


def examine_with(asked: Iterable[tuple[Benchmark, Parameters]], executor: Executor) -> tuple[Availability, ...]:
    """Check which benchmarks can run with the given parameters."""
    asked = list(asked)
    benchmarks = [benchmark for benchmark, _ in asked]
    wanted = [name for benchmark in benchmarks for name in benchmark.needs]
    programs = executor.programs([*wanted, *PACKAGE_PROGRAMS, _PHONE])
    tool = package_tool(programs)
    return tuple(_examine(benchmark, parameters, executor, programs, tool) for benchmark, parameters in asked)


def package_tool(programs: Mapping[str, str | None]) -> PackageTool | None:
    return next((tool for tool, (program, _) in _TOOLS.items() if programs.get(program)), None)


def install_command(packages: Mapping[str, str], tool: PackageTool | None) -> str | None:
    """Return the install command for this package manager; None if the manager or the package is unknown."""
    return f"{_TOOLS[tool][1]} {packages[tool]}" if tool is not None and tool in packages else None


def _answer(probe: Probe, parameters: Parameters, executor: Executor) -> str | None:
    """Run a probe and return why the benchmark cannot work; None if it can, or if the probe did not start."""
    try:
        raw = run_or_stop(executor, probe.invocation(parameters))
    except KtrialError:
        return None
    return probe.why_not(raw)


#: Start of the paths of Android's own programs, and a program that all phones have.
_ANDROID = "/system/"
_PHONE = "/system/bin/getprop"


def _examine(
    benchmark: Benchmark,
    parameters: Parameters,
    executor: Executor,
    programs: Mapping[str, str | None],
    tool: PackageTool | None,
) -> Availability:
    lacking = None if executor.guest is None else _lacking(benchmark, executor.guest, programs)
    why, step = lacking or _why_not(benchmark, parameters, executor, programs, tool)
    return Availability(benchmark=benchmark.name, what=benchmark.what, why=why, next=step)


def _lacking(benchmark: Benchmark, guest: GuestTools, programs: Mapping[str, str | None]) -> tuple[str, str] | None:
    """Return why the guest cannot run a benchmark, and the next step; None if it can."""
    beyond: str | None = getattr(benchmark, "beyond_exact", None)
    if guest.exact and beyond is not None:
        return f"cannot be measured in an exact guest ({beyond})", "use an ordinary guest: --host guest:KERNEL"
    needed = [name for name in benchmark.needs if "/" not in name]
    if needed and not is_program(benchmark):
        return "needs more than programs and their libraries, which is all a guest has", "leave out --host"
    absent = [name for name in needed if programs.get(name) is None]
    if not absent:
        return None
    names, verb = ", ".join(absent), "is" if len(absent) == 1 else "are"
    if guest.foreign:
        return f"{names} of this machine cannot run in a guest of another architecture", "use the agent-* benchmarks"
    tools = " ".join(f"--tool {name}" for name in absent)
    if guest.kept is not None:
        again = f"ktrial kernel boot KERNEL --keep {guest.kept} {tools}"
        return (
            f"{names} {verb} not in the guest {guest.kept}",
            f"shut the guest down, then boot it with {names}: `{again}`",
        )
    if not guest.found.keys() >= set(absent):
        return (
            f"{names} {verb} not in the guest",
            f"boot a guest with {names}: `ktrial kernel boot KERNEL --keep NAME {tools}`",
        )
    step = install_command(benchmark.packages, package_tool(guest.found))
    if step is None and (recipe := recipe_for(absent)) is not None:
        step = f"ktrial tools get {recipe.name}"
    return (
        f"{names} {verb} not installed on this machine, from which guests copy programs",
        step or f"install {names} by hand",
    )


def _elsewhere(absent: Sequence[str]) -> tuple[str, str] | None:
    """Return why this machine cannot have what is `absent`, and the next step; None if only programs are absent."""
    if any(name.startswith(_ANDROID) for name in absent):
        return "needs programs that only Android has", "add --host adb to measure a phone"
    unseen = [name for name in absent if name.startswith(KERNEL_FILES)]
    if not unseen:
        return None
    return (
        f"{unseen[0]} does not exist here",
        "run the benchmark on real hardware; guests and containers rarely have this file",
    )


def _on_phone(benchmark: Benchmark, absent: Sequence[str]) -> str:
    """Return the next step if a phone lacks programs, which no package manager of this machine can install."""
    if is_program(benchmark):
        return f"put {', '.join(absent)}, built statically for the phone, into a folder and add `--tools FOLDER`"
    return "use the agent-* benchmarks, which need no programs"


def _install_step(benchmark: Benchmark, absent: list[str], tool: PackageTool | None) -> str:
    """Return the next step if this system lacks programs."""
    if (tool or "") not in benchmark.packages and (recipe := recipe_for(absent)) is not None:
        return f"ktrial tools get {recipe.name}"
    if tool is None and benchmark.packages:
        return "install " + ", ".join(f"{name} ({where})" for where, name in benchmark.packages.items())
    return install_command(benchmark.packages, tool) or f"install {', '.join(absent)} by hand"


def _why_not(
    benchmark: Benchmark,
    parameters: Parameters,
    executor: Executor,
    programs: Mapping[str, str | None],
    tool: PackageTool | None,
) -> tuple[str | None, str | None]:
    why: str | None = None
    step: str | None = None
    absent = [name for name in benchmark.needs if programs.get(name) is None]
    elsewhere = _elsewhere(absent)
    if elsewhere is not None:
        why, step = elsewhere
    elif absent:
        why = f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed"
        if executor.container is not None:
            step = IN_CONTAINER
        elif programs.get(_PHONE) is not None:
            step = _on_phone(benchmark, absent)
        else:
            step = _install_step(benchmark, absent, tool)
    elif benchmark.root_reason is not None and not executor.has_root:
        why = f"needs root, because {benchmark.root_reason}"
        step = "run ktrial through sudo" + (" without --tools" if executor.container is not None else "")
    elif benchmark.user_reason is not None and executor.runs_as_root:
        why = f"cannot run as root, because {benchmark.user_reason}"
        step = "run ktrial as an ordinary user, or through that user's sudo"
    elif not benchmark.needs and not executor.has_loads:
        why = "this agent cannot run loads"
        step = "reinstall ktrial (in a checkout, running ./ktrial rebuilds the agent)"
    elif benchmark.probe is not None:
        why = _answer(benchmark.probe, {**benchmark.parameters, **parameters}, executor)
        step = benchmark.probe.next if why is not None else None
    return why, step
