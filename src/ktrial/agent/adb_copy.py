# SPDX-License-Identifier: Apache-2.0
"""Copies of this machine's programs on a phone, which last as long as the connection.

A shell on the phone receives a copy, waits for the end of its input, and removes the copy, even if the cable is pulled.
Nothing crosses the cable while the shell waits.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import threading
from pathlib import Path

from ktrial.agent.remote import Way, start_program
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.formats.elf import MAGIC, Elf

_ENDED_S, _COPY_LIMIT_S = 10.0, 300.0
_SCRIPT = (
    'umask 077; trap "" PIPE HUP; d={folder}; f=$d/{name}; '
    'drop() {{ rm -rf "$d"; rmdir "${{d%/*}}" "{base}"; }} 2>/dev/null; '
    'mkdir -p "$d" && head -c {size} > "$f" && chmod 700 "$f" && [ "$(sha256sum < "$f" | cut -c1-64)" = {digest} ] || '
    "{{ drop; exit 91; }}; echo there; read -r end; drop"
)
#: Architectures that an ELF file names differently from the agent.
_MACHINES = {"armv7": "arm"}
#: Characters that a shell does not interpret in the name of a file.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-")


class ProgramThere:
    """A copy of a program on a phone, in a folder named by the program's digest; `base` is ktrial's folder there."""

    def __init__(self, way: Way, base: str, program: Path, architecture: str) -> None:
        data = program.read_bytes()
        check_runs(program, data, architecture)
        self.digest = hashlib.sha256(data).hexdigest()
        name = "".join(one if one in _PLAIN else "_" for one in program.name)
        folder = f"{base}/programs/{self.digest[:16]}"
        self.path, self.size = f"{folder}/{name}", len(data)
        script = _SCRIPT.format(folder=folder, name=name, base=base, size=len(data), digest=self.digest)
        self._process = start_program(way.argv(script))
        late = threading.Timer(_COPY_LIMIT_S, self._process.kill)
        late.daemon = True
        late.start()
        try:
            self._send(data)
        except BaseException:
            self.close()
            raise
        finally:
            late.cancel()

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the shell there says why below
            self._process.stdin.write(data)
            self._process.stdin.flush()
        said = self._process.stdout.readline()
        if said.strip() != b"there":
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDED_S)
            assert self._process.stderr is not None
            why = self._process.stderr.read().decode(errors="replace").strip() or "the connection ended"
            raise KtrialError(
                f"cannot copy the program to {self.path}: {why.splitlines()[-1]}",
                hint=f"check the connection, and that the phone has {len(data) >> 20 or 1} MiB free",
            )

    def close(self) -> None:
        """Remove the copy."""
        process = self._process
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_ENDED_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def check_runs(program: Path, data: bytes, architecture: str) -> None:
    """Raise BadInput for a program that a phone of this architecture cannot start."""
    if data[:2] == b"#!":
        return
    if data[:4] != MAGIC:
        raise BadInput(f"{program}: neither a program nor a script with #!", hint="give a static program or a script")
    found = Elf(data, str(program))
    if found.machine != _MACHINES.get(architecture, architecture):
        raise BadInput(
            f"{program}: built for {found.machine}, but the phone is {architecture}",
            hint=f"build the program statically for {architecture}-linux",
        )
    interpreter = found.interpreter
    if interpreter is not None and not interpreter.startswith("/system/"):
        raise BadInput(f"{program}: needs {interpreter}, which phones lack", hint="build the program with -static")
