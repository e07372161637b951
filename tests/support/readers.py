# SPDX-License-Identifier: Apache-2.0
"""Finds all readers: public functions that parse foreign text, which is their first argument."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

import ktrial
from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import KtrialError
from ktrial.kit.formats.elf import Elf
from ktrial.recordings.growing import GrowingRecording
from ktrial.tuning.origin.formats.lines import ForeignFormatError

#: Errors that a reader may raise for unreadable input.
REFUSALS = (KtrialError, ForeignFormatError)
_TEXTS = {"bytes": "bytes", "str": "str", "str | bytes": "bytes", "bytes | str": "bytes", "bytes | mmap": "bytes"}
#: Values for the other arguments of readers, by name.
_ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("source", "file", "name", "outcome", "word", "what"), "f"),
    **dict.fromkeys(("config", "config_from", "interval_s", "as_format", "label"), None),
    **dict.fromkeys(("line", "number", "strip", "session"), 1),
    **dict.fromkeys(("offset", "at"), 0),
    "options": ImportOptions(),
    "variables": {},
    "limit_bytes": 1 << 28,
    "wanted": "x86_64",
    "owner": "GNU",
    "kind": 3,
    "order": "<",
    "architecture": "x86_64",
    "words": b"",
    "notes": b"",
    "btf": False,
    "target": "a.o",
    "inline_comments": True,
    "unit": "s",
    "reason": "it is so",
    "text": "x",
}
#: Other values for the arguments of single readers.
_OF_ITS_OWN: dict[str, dict[str, Any]] = {
    "tuning.origin.formats.words.fits": {"pattern": "a*b*c?[d-f]*"},
    "tuning.origin.formats.command_line.same_name": {"right": "a"},
    "tuning.origin.formats.sysctl_d.matches": {"key": "vm.swappiness"},
    "results.importers._units.signed_number": {"wanted": "a number"},
    "kernels.images.flat_kernel.own_note": {"owner": b"GNU"},
    "kernels.images.read_identity.identify_running": {"config": (None, None)},
    "guests.line_frames.encode_frame": {"content": b""},
    "kit.formats.kernel_config.fragment_line": {"value": "y", "kind": None},
    "tuning.origin.formats.lines.is_comment": {},
    "results.importers._shared.group_of": {"name": "f"},
    "results.importers._shared.has_keys": {},
    "results.importers._shared.has_schema": {"schema": "ktrial.bench/1"},
    "tuning.origin.formats.sniff.sniff": {"data": "x"},
}
#: Functions whose first argument is a text but that parse nothing.
_NO_READERS = frozenset(
    {
        "tuning.origin.formats.lines.require_something",
        "recordings.recording.recording_of",
        "kit.formats.tool_output.unreadable",
        "kit.formats.tool_output.unreadable_value",
        "guests.line_frames.encode_frame",
        "kit.formats.kernel_config.fragment_line",
        "results.importers._shared.measurement",
    }
)
#: Parts of readers that raise ValueError; the readers that use them are found too.
_PARTS = frozenset(
    {
        "tuning.origin.formats.words.split_words",
        "recordings.ktrial_blocks.contents",
        "recordings.ktrial_blocks.numbers",
    }
)
#: Modules that parse foreign text.
_PLACES = re.compile(
    r"(?:kit|tuning\.origin)\.formats\.|bench\.adapters\..*(?:output|terse|_agent_load_reply)$"
    r"|results\.importers\.|kernels\.|guests\.|recordings\.|machine\.(?:kmsg|timers|logins|terminals)$"
    r"|tuning\.boots\.(?:grub_menu|kernel_header|loader_entry)$"
)
#: Functions that parse text of this machine or of the catalog, not foreign text.
_OWN_WORDS = frozenset(
    {
        *("guests.kept.check_name", "guests.kept.is_name", "guests.shape.guest_shape", "guests.text.kept_text"),
        *("kernels.identity.without_target", "kernels.request.parse_set"),
        *("kernels.request.same_value", "kernels.source.parse_patch", "kernels.uarch.arm_targets.find_cpu_target"),
        *("kernels.uarch.targets.find_target", "kernels.uarch.targets.gate_number", "recordings.merge.together"),
        "tuning.boots.grub_menu.grub_program",
        *("recordings.blocks.block", "recordings.frame_loop.loop_arguments"),
        *("kernels.build.run_build.flags_of_image", "guests.initramfs.build", "guests.initramfs.place"),
        *(
            "kernels.config.reasons.reason",
            "kernels.images.architectures.machine_for",
            "kernels.build.distribution_packages.find",
        ),
        *(
            "kernels.build.toolchain.choose",
            "kernels.uarch.patch_text.choice",
            "kernels.uarch.patch.insert",
            "kernels.uarch.patch.unified",
        ),
    }
)
Reader = Callable[[bytes], object]


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(ktrial.__path__, "ktrial."):
        if not found.ispkg and _PLACES.match(found.name.removeprefix("ktrial.")):
            yield importlib.import_module(found.name)


def _whole(result: object) -> object:
    """Return the result, with an iterator read to its end."""
    return list(result) if isinstance(result, Iterator) else result


def _reader(key: str, function: Callable[..., object], shape: str, others: list[inspect.Parameter]) -> Reader:
    own = _OF_ITS_OWN.get(key, {})
    given = {}
    for one in others:
        if one.name in own:
            given[one.name] = own[one.name]
        elif one.default is inspect.Parameter.empty and one.kind is not inspect.Parameter.VAR_POSITIONAL:
            given[one.name] = _ARGUMENTS[one.name]

    def read(data: bytes) -> object:
        return _whole(function(data if shape == "bytes" else data.decode("utf-8", "replace"), **given))

    return read


def _part(read: Reader) -> Reader:
    def tried(data: bytes) -> object:
        with suppress(ValueError, struct.error, zlib.error):
            return read(data)
        return None

    return tried


def _elf(data: bytes) -> object:
    found = Elf(data, "f")
    return found.interpreter, found.note(".notes", "GNU", 3), [found.section(one.name) for one in found.sections[:20]]


def readers() -> dict[str, Reader]:
    """Return the readers by module and name. Raise KeyError for a reader with an argument that is not known here."""
    found: dict[str, Reader] = {
        "kit.formats.elf.Elf": _elf,
        "recordings.growing.GrowingRecording": lambda data: GrowingRecording().feed(data),
    }
    for module in _modules():
        for name, function in sorted(vars(module).items()):
            if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            key = f"{module.__name__.removeprefix('ktrial.')}.{name}"
            parameters = list(inspect.signature(function).parameters.values())
            shape = _TEXTS.get(str(parameters[0].annotation)) if parameters else None
            if shape is not None and key not in _NO_READERS | _OWN_WORDS:
                read = _reader(key, function, shape, parameters[1:])
                found[key] = _part(read) if key in _PARTS else read
    return found


def modules_without() -> set[str]:
    """Return the modules for foreign text in which no reader was found."""
    found = {key.rpartition(".")[0] for key in readers()}
    names = {module.__name__.removeprefix("ktrial.") for module in _modules()}
    return {name for name in names - found if not name.startswith(("kernels.", "guests."))}
