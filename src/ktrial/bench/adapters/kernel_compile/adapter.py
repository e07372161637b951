# SPDX-License-Identifier: Apache-2.0
"""Kernel builds: the time of `make` for a given tree and configuration, out of tree and on a tmpfs."""

from __future__ import annotations

import hashlib
import re

import msgspec

from ktrial.bench.adapters._tool import Program, ToolBenchmark, collected, matching, one_measurement, one_of, whole
from ktrial.bench.benchmark import DIRECTORY, Invocation, Parameters, ParsedRun, RawOutput, Step
from ktrial.bench.outcomes import outcome
from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.formats.kernel_config import read_kernel_config
from ktrial.kit.formats.tool_output import Quantity
from ktrial.kit.outcome import Outcome
from ktrial.machine.facts import FactBook

_BUILD = "build"
_CONFIG = f"{_BUILD}/.config"
#: Configurations that every tree can generate.
_MADE = ("tinyconfig", "defconfig", "allnoconfig")
#: Machine -> folder of its boot image, and the image that is built there by default.
_IMAGES = {
    "x86_64": ("arch/x86/boot", "bzImage"),
    "i686": ("arch/x86/boot", "bzImage"),
    "aarch64": ("arch/arm64/boot", "Image"),
    "riscv64": ("arch/riscv/boot", "Image"),
    "armv7l": ("arch/arm/boot", "zImage"),
}
_TARGETS = ("bzImage", "Image", "Image.gz", "zImage", "vmlinux")
#: The line that kbuild writes into a `.cmd` file beside each file that it has built; `cmd_` alone before Linux 6.2.
_MADE_IT = re.compile(rb"\s*(?:saved)?cmd_\S+ := ")
#: Keeps the clock, the user's name and the host's name out of the build.
_PINNED = {"KBUILD_BUILD_TIMESTAMP": "1970-01-01", "KBUILD_BUILD_USER": "ktrial", "KBUILD_BUILD_HOST": "ktrial"}
_LIMIT_S = 4 * 3600.0
_STEP_LIMIT_S = 900.0
_BLIND = (
    "Sources, configuration, compiler, linker and number of jobs define the benchmark: compare only builds that share "
    "them. Only the version of the sources is recorded. The tree is read from its own disk, warm after the warm-up "
    "run; the output is written to memory. "
)


def _outcome(name: str, what: str, blind: str, *, headline: bool = False) -> Outcome:
    return outcome(
        name,
        "s",
        "time",
        f"The build takes [less|more] {what}.",
        _BLIND + blind,
        (0.001 if headline else 0.0, 1e7),
        headline=headline,
    )


_OUTCOMES = (
    _outcome("time", "wall time", "The last steps, above all linking, keep only one CPU busy.", headline=True),
    _outcome("user", "CPU time in user space", "If several threads share a core, each is charged its full time."),
    _outcome("system", "CPU time in the kernel", "Tens of thousands of short processes: forks, page faults, opens."),
)


class KernelCompile(ToolBenchmark, frozen=True, kw_only=True):
    """A kernel build; by default, it makes the usual image of this architecture with one job per CPU."""

    def invocation(self, parameters: Parameters, facts: FactBook) -> Invocation:
        """Return how to build once.

        Raise BadInput without `tree`, without `target` on an unknown architecture, and for an invalid value.
        """
        given = {**self.parameters, **parameters}
        machine = facts.value("cpu.architecture")
        folder, image = _IMAGES.get(machine, ("", ""))
        chosen = {"jobs": given["jobs"] or facts.value("cpu.threads") or 1, "target": given["target"] or image}
        if not chosen["target"]:
            raise BadInput(
                f"cannot choose a kernel image for {machine or 'an unknown architecture'}",
                hint="add `-p target=vmlinux`",
            )
        invocation = super().invocation({**parameters, **chosen}, facts)
        made = (
            f"{_BUILD}/.vmlinux.cmd" if chosen["target"] == "vmlinux" else f"{_BUILD}/{folder}/.{chosen['target']}.cmd"
        )
        return msgspec.structs.replace(invocation, files=(_CONFIG, made))


def _command(parameters: Parameters, *, llvm: bool) -> Invocation:
    if not parameters["tree"]:
        raise BadInput(
            "parameter tree is empty: the benchmark needs kernel sources",
            hint="name a clean tree, such as -p tree=/usr/src/linux-source-6.12",
        )
    tree = matching(parameters, "tree", r"/[^\s:]*", "/usr/src/linux", "an absolute path without spaces and colons")
    make = ("make", "-s", "-C", tree, f"O={DIRECTORY}/{_BUILD}", *(("LLVM=1",) if llvm else ()))
    target = one_of(parameters, "target", _TARGETS)
    return Invocation(
        argv=(*make, f"-j{whole(parameters, 'jobs', 1, 8192)}", target),
        environment=_PINNED,
        limit_s=_LIMIT_S,
        steps=(_configuration(parameters, make), Step(argv=(*make, "olddefconfig"), limit_s=_STEP_LIMIT_S)),
        warm_ups=1,
        in_memory=True,
    )


def _configuration(parameters: Parameters, make: tuple[str, ...]) -> Step:
    config = matching(
        parameters,
        "config",
        rf"{'|'.join(_MADE)}|/.*",
        _MADE[0],
        f"{', '.join(_MADE)} or the absolute path of a .config",
    )
    if config in _MADE:
        return Step(argv=(*make, config), limit_s=_STEP_LIMIT_S)
    return Step(argv=("install", "-D", "-m", "0600", config, f"{DIRECTORY}/{_CONFIG}"))


def _read(raw: RawOutput, _: Parameters) -> ParsedRun:
    data = collected(raw, _CONFIG)
    config = read_kernel_config(data, _CONFIG)
    if not any(_MADE_IT.match(text) for name, text in raw.files.items() if name.endswith(".cmd")):
        raise BadRun("make succeeded but wrote no image", hint="set the parameter target to a kernel image")
    digest = hashlib.sha256(data).hexdigest()
    used = (("time", raw.wall_ns, 1e9, "ns"), ("user", raw.user_us, 1e6, "us"), ("system", raw.system_us, 1e6, "us"))
    return ParsedRun(
        measurements=tuple(
            one
            for name, value, per_second, unit in used
            if value is not None
            for one in one_measurement(name, Quantity(value / per_second, f"{value} {unit}"))
        ),
        tool_version=f"{config.compiler}; Linux {config.version}; config {digest[:12]}",
        details={
            "compiler": config.compiler,
            "sources": config.version,
            "architecture": config.architecture,
            "config_sha256": digest,
            "symbols": config.symbols,
        },
    )


def _benchmark(name: str, what: str, program: Program, *, llvm: bool) -> KernelCompile:
    return KernelCompile(
        name=name,
        what=what,
        program=program,
        outcomes=_OUTCOMES,
        parameters={"tree": "", "config": "defconfig", "target": "", "jobs": 0},
        command=lambda parameters: _command(parameters, llvm=llvm),
        reader=_read,
    )


BENCHMARKS = (
    _benchmark(
        "kernel-compile",
        "Time of make for a kernel image from a given clean tree, with GCC, built in memory.",
        Program(
            needs=("make", "gcc", "ld", "flex", "bison", "bc"),
            packages={
                "apt": "make gcc flex bison bc libelf-dev libssl-dev",
                "dnf": "make gcc flex bison bc elfutils-libelf-devel openssl-devel",
                "pacman": "base-devel bc libelf",
                "zypper": "make gcc flex bison bc libelf-devel libopenssl-devel",
            },
            version=("gcc", "--version"),
            version_pattern=r"gcc .*\) (\d\S*)",
        ),
        llvm=False,
    ),
    _benchmark(
        "kernel-compile-llvm",
        "Time of make for a kernel image from a given clean tree, with Clang and LLD, built in memory.",
        Program(
            needs=("make", "clang", "ld.lld", "llvm-ar", "flex", "bison", "bc"),
            packages={
                "apt": "make clang lld llvm flex bison bc libelf-dev libssl-dev",
                "dnf": "make clang lld llvm flex bison bc elfutils-libelf-devel openssl-devel",
                "pacman": "base-devel clang lld llvm bc libelf",
                "zypper": "make clang lld llvm flex bison bc libelf-devel libopenssl-devel",
            },
            version=("clang", "--version"),
            version_pattern=r"clang version (\S+)",
        ),
        llvm=True,
    ),
)
