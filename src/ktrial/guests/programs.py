# SPDX-License-Identifier: Apache-2.0
"""Copies programs of this machine into a guest, with the libraries that their own loader finds for them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ktrial.bench.guest_tools import GuestTool, guest_path
from ktrial.kernels.images.architectures import host_architecture
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.formats.elf import MAGIC, Elf

_LIBRARY = re.compile(r"^[ \t]*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
_MISSING = re.compile(r"^[ \t]*(\S+) => not found", re.MULTILINE)
_LIMIT_S = 30.0
_BUSYBOX = "busybox"
_AGENT = "ktrial-agent"


class GuestFiles(NamedTuple):
    """Files and links to put into a guest, by their paths in the guest. `tools` maps names of programs to paths."""

    files: dict[str, bytes]
    links: dict[str, str]
    tools: dict[str, str]
    architecture: str = "x86_64"


def bring(names: Sequence[str], architecture: str | None = None) -> GuestFiles:
    """Return the programs `names` and all files that they need in a guest. Raise BadInput if a program is missing."""
    found = GuestFiles({}, {}, {}, architecture or host_architecture())
    for name in dict.fromkeys(names):
        program = shutil.which(name)
        if program is None:
            raise BadInput(f"cannot find program {name!r} in PATH", hint="install the program, or give its path")
        path = str(Path(program).absolute())
        found.tools[name] = guest_path(path)
        _add(path, found, found.tools[name])
    _add_applets(found)
    return found


def bring_for(
    program: Sequence[str], names: Sequence[str], architecture: str | None = None
) -> tuple[GuestFiles, GuestTool | None]:
    """Return the files for `names` and for the command line `program`, and the command to run in the guest, if any."""
    found = bring(names, architecture)
    if not program:
        return found, None
    name = program[0]
    here = {Path(path).name for path in (*found.files, *found.links)} | {_AGENT}
    if name not in (*here, *found.files):
        found = bring([*names, name], architecture)
    return found, GuestTool(argv=(found.tools.get(name, name), *program[1:]))


def _add(path: str, found: GuestFiles, place: str) -> None:
    data = Path(path).read_bytes()
    found.files[place] = data
    if data.startswith(b"#!"):
        _add_interpreters(path, data, found)
        return
    if not data.startswith(MAGIC):
        raise BadInput("neither a program nor a script", file=path, hint="name an executable file")
    elf = Elf(data, path)
    _check_architecture(elf, path, found.architecture)
    if elf.interpreter is not None:
        _add_libraries(path, elf.interpreter, found)


def _check_architecture(elf: Elf, path: str, wanted: str) -> None:
    """Raise BadInput for a program that cannot run in the guest, or whose libraries are not on this machine."""
    foreign = wanted != host_architecture()
    hint = f"use the path of a static program for {wanted}, or `-- ktrial-agent` for the agent's loads"
    if not foreign:
        hint = f"use a program for {wanted}"
    if elf.machine != wanted:
        raise BadInput(f"the program is for {elf.machine}, but the guest is {wanted}", file=path, hint=hint)
    if foreign and elf.interpreter is not None:
        raise BadInput(f"the program needs libraries for {wanted}, which this machine lacks", file=path, hint=hint)


def _add_interpreters(path: str, script: bytes, found: GuestFiles) -> None:
    words = script[2:256].split(b"\n", 1)[0].decode(errors="replace").split()
    wanted = words[:1]
    if wanted and wanted[0].endswith("/env"):
        # Options of env, such as -S, and variables come before the interpreter.
        wanted += [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]
    for word in wanted:
        where = shutil.which(word)
        if where is None:
            raise BadInput(f"cannot find the interpreter {word!r}", file=path, hint="install the interpreter")
        if where not in found.files:
            _add(where, found, where)


def _add_libraries(path: str, loader: str, found: GuestFiles) -> None:
    said = _output_of([loader, "--list", path])
    missing = _MISSING.findall(said)
    if missing:
        raise KtrialError(f"cannot load {path}: missing {', '.join(missing)}", hint="install these libraries")
    for library in (loader, *_LIBRARY.findall(said)):
        if library not in found.files:
            found.files[library] = Path(library).read_bytes()


def _add_applets(found: GuestFiles) -> None:
    if _BUSYBOX not in found.tools or found.architecture != host_architecture():
        return
    taken = {Path(path).name for path in found.files}
    for applet in _output_of([found.tools[_BUSYBOX], "--list"]).split():
        if applet not in taken:
            found.links[f"/usr/bin/{applet}"] = found.tools[_BUSYBOX]


def _output_of(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(list(argv), capture_output=True, text=True, timeout=_LIMIT_S, check=True, cwd="/")
    except subprocess.CalledProcessError as error:
        ended = f"signal {-error.returncode}" if error.returncode < 0 else f"status {error.returncode}"
        said = f": {error.stderr.strip()}" if error.stderr.strip() else ""
        raise KtrialError(f"`{shlex.join(argv)}` ended with {ended}{said}", hint="reinstall the program") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        why = error.strerror if isinstance(error, OSError) else f"it did not end within {_LIMIT_S:g} s"
        raise KtrialError(f"cannot run `{shlex.join(argv)}`: {why}", hint="reinstall the program") from None
    return done.stdout
