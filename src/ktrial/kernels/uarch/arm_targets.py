# SPDX-License-Identifier: Apache-2.0
"""CPUs that a kernel for arm64 can be built for: what `-mcpu=` takes."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from ktrial.kit.errors import BadInput, UnknownName

#: What the kernel gives all its code for arm64: none of it may touch vector or floating-point registers.
KERNEL_FLAGS = ("-mgeneral-regs-only",)
#: The target whose code runs on every CPU of the architecture.
BASE = "generic"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_FEATURE = re.compile(r"__ARM_FEATURE_([A-Z][A-Z0-9_]*)")


class CpuTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One thing that `-mcpu` takes. A `c_only` target has a name that rustc does not share."""

    name: str
    prompt: str
    family: str
    c_only: bool = False

    @property
    def rust_cpu(self) -> str:
        return self.name

    def check(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadInput(f"{self.name!r} is not a name that -mcpu takes")


def features(macros: Iterable[str], base: Iterable[str]) -> tuple[str, ...]:
    """Return the features of the architecture among `macros` that are not in `base`, without their prefix."""
    found = (_FEATURE.fullmatch(name) for name in set(macros) - set(base))
    return tuple(sorted(match[1] for match in found if match))


def find_cpu_target(word: str, targets: Iterable[CpuTarget]) -> CpuTarget:
    """Return the target that a person means: its -mcpu or its prompt (`apple-m1`, `Apple M1`)."""
    known = tuple(targets)
    wanted = word.lower().replace(" ", "-")
    for target in known:
        if wanted in (target.name, target.prompt.lower().replace(" ", "-")):
            return target
    names = [target.name for target in known]
    raise UnknownName("target", word, names, hint="`ktrial kernel uarch list --arch arm64` lists them")


def cpu_flags(target: CpuTarget) -> dict[str, tuple[str, ...]]:
    """Variables of a kernel's build -> flags that it puts behind its own."""
    flag = f"-mcpu={target.name}"
    flags: dict[str, tuple[str, ...]] = {"KCFLAGS": (flag,), "KCPPFLAGS": (flag,)}
    return flags if target.c_only else {**flags, "KRUSTFLAGS": (f"-Ctarget-cpu={target.rust_cpu}",)}
