# SPDX-License-Identifier: Apache-2.0
"""Reads the identity of a kernel from its image, or from what the running kernel shows."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ktrial.kernels.identity import KernelIdentity
from ktrial.kernels.images.flat_kernel import has_btf, own_build_id, own_note
from ktrial.kernels.images.kernel_image import Banner, read_banner, read_image
from ktrial.kit.errors import BadInput
from ktrial.kit.formats import elf

_SET = re.compile(r"CONFIG_(\w+)=(.*)")
_UNSET = re.compile(r"# CONFIG_(\w+) is not set")
_BEGIN, _END = b"IKCFG_ST", b"IKCFG_ED"
_GZIP_WINDOW = 31
_LIMIT_BYTES = 16 << 20


def read_symbols(data: bytes, source: str) -> dict[str, str]:
    """Return the value of each symbol: `y`, `m`, `n`, a number, or a string without quotes."""
    found: dict[str, str] = {}
    for number, raw in enumerate(data.splitlines(), start=1):
        line = raw.decode(errors="replace").strip()
        if match := _SET.fullmatch(line):
            found[match[1]] = match[2].strip('"')
        elif match := _UNSET.fullmatch(line):
            found[match[1]] = "n"
        elif line and not line.startswith("#"):
            raise BadInput(
                f"{line[:60]!r} is not a line of a kernel configuration",
                file=source,
                line=number,
                hint="write the line as CONFIG_NAME=VALUE",
            )
    if not found:
        raise BadInput(
            "not a kernel configuration: it sets no symbol", file=source, hint="name a .config of a kernel build"
        )
    return found


def built_in(kernel: bytes) -> bytes | None:
    """Return the configuration embedded in a kernel; None if there is none, or if it is incomplete."""
    begin = kernel.find(_BEGIN)
    end = kernel.find(_END, begin)
    if begin < 0 or end < 0:
        return None
    machine = zlib.decompressobj(_GZIP_WINDOW)
    try:
        text = machine.decompress(kernel[begin + len(_BEGIN) : end], _LIMIT_BYTES)
    except zlib.error:
        return None
    return text if machine.eof else None


INSIDE = "inside the image"
_BUILD_ID = 3
#: The note in which kernels since 5.12 state whether they were linked with LTO.
_LINUX_LTO = 0x101
#: Words in the kernel (messages, file names, symbols, fields) and the scheduler that they show; the first match counts.
_SCHEDULERS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"BORE \(Burst-Oriented Response Enhancer\) CPU Scheduler modification ([0-9][\w.-]*)"), "BORE"),
    (re.compile(rb"\bsched_bore\b|\bburst_score\b"), "BORE"),
    (re.compile(rb"\bPDS CPU Scheduler ([\w.-]+)"), "PDS"),
    (re.compile(rb"\bBMQ CPU Scheduler ([\w.-]+)"), "BMQ"),
    (re.compile(rb"MuQSS CPU scheduler v([\w.-]+)"), "MuQSS"),
    (re.compile(rb"base_slice|\bvlag\b"), "EEVDF"),
    (re.compile(rb"min_granularity"), "CFS"),
)
#: Configuration symbol -> what it means when enabled.
_OPTIMISED = {
    "CC_OPTIMIZE_FOR_PERFORMANCE_O3": "speed (-O3)",
    "CC_OPTIMIZE_FOR_PERFORMANCE": "speed (-O2)",
    "CC_OPTIMIZE_FOR_SIZE": "size (-Os)",
}
_LTO = {"LTO_CLANG_FULL": "full", "LTO_CLANG_THIN": "thin", "LTO_NONE": "none", "LTO_GCC": "gcc"}
_PREEMPTION = {
    "PREEMPT_RT": "real-time",
    "PREEMPT_LAZY": "lazy",
    "PREEMPT": "full",
    "PREEMPT_VOLUNTARY": "voluntary",
    "PREEMPT_NONE": "none",
}
_AT_BOOT = "PREEMPT_DYNAMIC"


class _Notes(NamedTuple):
    """Build ID and LTO note, None if missing, and whether there is type information, None if unknown."""

    build_id: bytes | None
    btf: bool | None
    lto: bytes | None


def identify(
    data: bytes, source: str, config: bytes | None, config_from: str | None
) -> tuple[KernelIdentity, Mapping[str, str] | None]:
    """Return an image's identity and configuration. An embedded configuration takes precedence over `config`."""
    image = read_image(data, source)
    banner = read_banner(image.kernel, source)
    inside = built_in(image.kernel)
    text, place = (inside, INSIDE) if inside is not None else (config, config_from)
    build_id, btf, lto = None, None, None
    if image.kernel.startswith(elf.MAGIC):
        kernel = elf.Elf(image.kernel, source)
        build_id, btf = kernel.note(".notes", "GNU", _BUILD_ID), kernel.section(".BTF") is not None
        lto = kernel.note(".notes", "Linux", _LINUX_LTO)
    elif image.architecture == "aarch64":
        build_id, btf = own_build_id(image.kernel), has_btf(image.kernel)
        lto = own_note(image.kernel, b"Linux", _LINUX_LTO)
    return _identity(
        banner,
        architecture=image.architecture,
        packing=image.packing,
        notes=_Notes(build_id, btf, lto),
        words=image.kernel,
        config=(text, place),
    )


def identify_running(
    version: bytes, *, architecture: str, words: bytes, notes: bytes, btf: bool, config: tuple[bytes | None, str | None]
) -> tuple[KernelIdentity, Mapping[str, str] | None]:
    """Return the identity and configuration of the running kernel.

    `version` is /proc/version, `words` holds symbol and type names, and `notes` are the kernel's ELF notes.
    """
    build_id, lto = elf.note_in(notes, "GNU", _BUILD_ID, "<"), elf.note_in(notes, "Linux", _LINUX_LTO, "<")
    return _identity(
        read_banner(version, "/proc/version"),
        architecture=architecture,
        packing=None,
        notes=_Notes(build_id, btf, lto),
        words=words,
        config=config,
    )


def _identity(
    banner: Banner,
    *,
    architecture: str,
    packing: str | None,
    notes: _Notes,
    words: bytes,
    config: tuple[bytes | None, str | None],
) -> tuple[KernelIdentity, Mapping[str, str] | None]:
    text, place = config
    linked = None if notes.lto is None else any(notes.lto)
    symbols = read_symbols(text, place or "its configuration") if text is not None else None
    identity = KernelIdentity(
        release=banner.release,
        build=banner.build,
        architecture=architecture,
        packing=packing,
        built_by=banner.built_by,
        compiler=banner.compiler,
        linker=banner.linker,
        build_id=None if notes.build_id is None else notes.build_id.hex(),
        btf=notes.btf,
        scheduler=_scheduler(words),
        config_from=place if symbols is not None else None,
        preemption=_preemption(banner, symbols or {}),
        lto={True: "yes", False: "none", None: None}[linked],
    )
    if symbols is None:
        return identity, None
    hz = symbols.get("HZ", "")
    return msgspec.structs.replace(
        identity,
        optimised=_first(_OPTIMISED, symbols),
        lto=_lto(linked, symbols),
        hz=int(hz) if hz.isdigit() else None,
        sched_ext=symbols.get("SCHED_CLASS_EXT") == "y",
        notes=tuple(_doubts(banner, linked, symbols)),
    ), symbols


def _lto(linked: bool | None, symbols: Mapping[str, str]) -> str:
    """Return the kind of LTO. The kernel shows whether LTO was used, and its configuration shows the kind."""
    configured = _first(_LTO, symbols) or "none"
    if linked is None or linked == (configured != "none"):
        return configured
    return "yes" if linked else "none"


def _doubts(banner: Banner, linked: bool | None, symbols: Mapping[str, str]) -> list[str]:
    found = []
    compiler = symbols.get("CC_VERSION_TEXT")
    if compiler is not None and banner.compiler is not None and compiler not in banner.compiler:
        found.append(f"the configuration may belong to another kernel: it names another compiler ({compiler})")
    configured = _first(_LTO, symbols) or "none"
    if linked is not None and linked != (configured != "none"):
        said = "with LTO" if linked else "without LTO"
        found.append(
            f"the configuration may belong to another kernel: it sets LTO {configured}, but the kernel is linked {said}"
        )
    return found


def _scheduler(words: bytes) -> str | None:
    for pattern, name in _SCHEDULERS:
        if match := pattern.search(words):
            return f"{name} {match[1].decode()}" if match.groups() else name
    return None


def _preemption(banner: Banner, symbols: Mapping[str, str]) -> str | None:
    """Return the preemption model of the banner, or else of the configuration; add the default to a choice at boot."""
    words, configured = banner.build.split(), _first(_PREEMPTION, symbols)
    if "PREEMPT_RT" in words:
        return "real-time"
    if _AT_BOOT in words:
        return f"chosen at boot, {configured} by default" if configured else "chosen at boot"
    if "PREEMPT" in words:
        return "full"
    return configured


def _first(names: Mapping[str, str], symbols: Mapping[str, str]) -> str | None:
    return next((text for symbol, text in names.items() if symbols.get(symbol) == "y"), None)
