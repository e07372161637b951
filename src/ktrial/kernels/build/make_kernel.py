# SPDX-License-Identifier: Apache-2.0
"""Builds a kernel reproducibly from a configuration, and checks the result against the request."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from ktrial.kernels.build_record import BuildCost, Flags, KernelMade, Tool, Toolchain
from ktrial.kernels.identity import KernelFound, symbol_differences, without_target
from ktrial.kernels.request import Configured
from ktrial.kernels.source import KernelSource
from ktrial.kernels.uarch.targets import Target, build_flags
from ktrial.kit.errors import KtrialError

#: The builder's name, the same for everybody, so that the same sources give the same bytes.
BUILDER = "ktrial"
_COMPILERS = ("CC", "HOSTCC", "HOSTCXX")
_SHOWN = 4
_CC_TEXT = "CC_VERSION_TEXT"


class Building(Protocol):
    """Builds a kernel in its folder, and checks beforehand that disk space and memory suffice."""

    def check_room(self, symbols: Mapping[str, str], jobs: int) -> None: ...

    def run(self, target: str, jobs: int) -> BuildCost: ...


class BuildOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A request to build a kernel. `target` is the CPU for the compiler flags; None if no flag selects a CPU."""

    source: KernelSource
    architecture: str
    toolchain: Toolchain
    tools: tuple[Tool, ...]
    configured: Configured
    make: Mapping[str, str]
    environment: Mapping[str, str]
    target: Target | None = None
    optimise: str | None = None
    jobs: int = 1
    anyway: bool = False


def make_variables(
    toolchain: Toolchain,
    architecture: str,
    launcher: str | None = None,
    flagged: Target | None = None,
    optimise: str | None = None,
) -> dict[str, str]:
    """Return the variables for make's command line: programs, and flags for the CPU `flagged` and level `optimise`.

    If `launcher` is not None, it starts each compiler.
    """
    programs = {
        name: f"{launcher} {word}" if launcher and name in _COMPILERS else word
        for name, word in toolchain.variables.items()
    }
    flags = dict(build_flags(flagged)) if flagged is not None else {}
    if optimise is not None:
        flags["KCFLAGS"] = (f"-O{optimise}", *flags.get("KCFLAGS", ()))
    return {"ARCH": architecture, **programs, **{name: " ".join(words) for name, words in flags.items()}}


def with_places_left_out(make: Mapping[str, str], symbols: Mapping[str, str], *places: str) -> dict[str, str]:
    """Return `make` with flags that keep the paths `places` out of debug information and Rust code.

    Builds in different folders then give the same kernel. A kernel with neither debug information nor Rust needs no
    flags.
    """
    found = dict(make)
    additions = []
    if symbols.get("DEBUG_INFO") == "y":
        additions += [(name, "-fdebug-prefix-map") for name in ("KCFLAGS", "KAFLAGS")]
    if symbols.get("RUST") == "y":
        additions.append(("KRUSTFLAGS", "--remap-path-prefix"))
    for name, option in additions:
        found[name] = " ".join([*filter(None, [make.get(name)]), *(f"{option}={place}=." for place in places)])
    return found


def build_key(
    source: KernelSource, configured: Configured, tools: tuple[Tool, ...], make: Mapping[str, str]
) -> str | None:
    """Return a hash of everything that a kernel is built from; None if the sources could change unnoticed.

    `make` holds make's variables, but no paths, no compiler cache and no distcc.
    """
    identity = source.sha256 or (source.commit if not source.changes else None)
    if identity is None:
        return None
    patches = [patch.sha256 for patch in source.patches]
    said = (identity, patches, source.epoch_s, configured.sha256, tools, sorted(make.items()))
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:24]


def make_environment(source: KernelSource, *, distributed: bool = False) -> dict[str, str]:
    """Return variables that make the build reproducible, and let builds in different folders share a cache."""
    stamp = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(source.epoch_s))
    return {
        "KBUILD_BUILD_TIMESTAMP": stamp,
        "KBUILD_BUILD_USER": BUILDER,
        "KBUILD_BUILD_HOST": BUILDER,
        "KBUILD_BUILD_VERSION": "1",
        "SOURCE_DATE_EPOCH": str(source.epoch_s),
        "CCACHE_NOHASHDIR": "1",
        **({"CCACHE_PREFIX": "distcc"} if distributed else {}),
    }


def make_kernel(
    order: BuildOrder,
    build: Building,
    found: Callable[[], tuple[KernelFound, str]],
    flags: Callable[[], Flags | None],
    unix_ms: Callable[[], int],
    folder: str,
) -> KernelMade:
    """Build the image and return its record. Raise KtrialError if the result differs from the request.

    `found` reads the built kernel and the digest of its image; `flags` reads the compiler flags of the kernel.
    """
    if not order.anyway:
        build.check_room(order.configured.symbols, order.jobs)
    image = {"x86_64": "bzImage", "arm64": "Image"}.get(order.architecture, "all")
    cost = build.run("all" if order.configured.symbols.get("MODULES") == "y" else image, order.jobs)
    kernel, digest = found()
    compiled = flags()
    check_agrees(order, kernel, compiled)
    return KernelMade(
        folder=folder,
        image=kernel.place,
        image_sha256=digest,
        source=order.source,
        architecture=order.architecture,
        base=order.configured.base,
        fragments=order.configured.fragments,
        config_sha256=order.configured.sha256,
        tools=order.tools,
        make=order.make,
        environment=order.environment,
        flags=compiled,
        identity=kernel.identity,
        cost=cost,
        ended_unix_ms=unix_ms(),
    )


def check_agrees(order: BuildOrder, kernel: KernelFound, compiled: Flags | None) -> None:
    """Raise KtrialError if the built kernel contradicts the request. Skip properties that the kernel does not state."""
    wrong = []
    if kernel.identity.compiler is not None and order.toolchain.kind not in kernel.identity.compiler:
        wrong.append(f"compiled with {kernel.identity.compiler}, not with {order.toolchain.kind}")
    if compiled is not None and order.target is not None and compiled.march != order.target.name:
        wrong.append(f"{compiled.object} was compiled with -march={compiled.march}, not {order.target.name}")
    if compiled is not None and order.optimise is not None and compiled.optimise != order.optimise:
        wrong.append(f"{compiled.object} was compiled with -O{compiled.optimise}, not -O{order.optimise}")
    if kernel.symbols is not None:
        differ = symbol_differences(_on(order.configured.symbols), _on(kernel.symbols))
        wrong += [f"{one.symbol} is {one.after or 'n'}, not {one.before or 'n'}" for one in differ[:_SHOWN]]
    if wrong:
        raise KtrialError(
            "the built kernel differs from the request:\n" + "\n".join(f"  {line}" for line in wrong),
            hint=f"run `ktrial kernel inspect {kernel.place}` to see the properties of the built kernel",
        )


def _on(symbols: Mapping[str, str]) -> dict[str, str]:
    """Return the enabled symbols, unquoted; not all readers list symbols that are off or empty."""
    bare = {name: value.strip('"') for name, value in symbols.items()}
    if _CC_TEXT in bare:
        bare[_CC_TEXT] = without_target(bare[_CC_TEXT])
    return {name: value for name, value in bare.items() if value not in ("n", "")}
