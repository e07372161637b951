# SPDX-License-Identifier: Apache-2.0
"""The CPUs that a kernel for arm64 can be built for: the values of `-mcpu=`."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from ktrial.kit.errors import BadInput, UnknownName

#: The flags of all arm64 kernel code: it must not use vector or floating-point registers.
KERNEL_FLAGS = ("-mgeneral-regs-only",)
#: The target whose code runs on every arm64 CPU.
BASE = "generic"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_FEATURE = re.compile(r"__ARM_FEATURE_([A-Z][A-Z0-9_]*)")


class CpuTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A value of `-mcpu`. `c_only` means that rustc does not know the target."""

    name: str
    prompt: str
    family: str
    c_only: bool = False

    @property
    def rust_cpu(self) -> str:
        return self.name

    def check(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadInput(f"{self.name!r} is not a valid value of -mcpu", hint="use a name that gcc -mcpu= accepts")


def features(macros: Iterable[str], base: Iterable[str]) -> tuple[str, ...]:
    """Return the architecture features in `macros` that `base` lacks, without their prefix."""
    found = (_FEATURE.fullmatch(name) for name in set(macros) - set(base))
    return tuple(sorted(match[1] for match in found if match))


def find_cpu_target(word: str, targets: Iterable[CpuTarget]) -> CpuTarget:
    """Return the target with this -mcpu or prompt (`apple-m1`, `Apple M1`)."""
    known = tuple(targets)
    wanted = word.lower().replace(" ", "-")
    for target in known:
        if wanted in (target.name, target.prompt.lower().replace(" ", "-")):
            return target
    names = [target.name for target in known]
    raise UnknownName("target", word, names, hint="run `ktrial kernel uarch list --arch arm64` to list targets")


def cpu_flags(target: CpuTarget) -> dict[str, tuple[str, ...]]:
    """Return the flags to append to each kbuild variable."""
    flag = f"-mcpu={target.name}"
    flags: dict[str, tuple[str, ...]] = {"KCFLAGS": (flag,), "KCPPFLAGS": (flag,)}
    return flags if target.c_only else {**flags, "KRUSTFLAGS": (f"-Ctarget-cpu={target.rust_cpu}",)}
