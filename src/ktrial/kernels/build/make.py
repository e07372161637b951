# SPDX-License-Identifier: Apache-2.0
"""Runs make on a kernel tree with a separate output folder and a clean environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from ktrial.kit.errors import KtrialError

_LIMIT_S = 900.0
#: Environment variables that would change how a kernel is configured and compiled.
NOT_INHERITED = frozenset({
    "ARCH",
    "CC",
    "CROSS_COMPILE",
    "HOSTCC",
    "HOSTCFLAGS",
    "HOSTLDFLAGS",
    "INSTALL_MOD_PATH",
    "KAFLAGS",
    "KBUILD_OUTPUT",
    "KCFLAGS",
    "KCONFIG_ALLCONFIG",
    "KCONFIG_CONFIG",
    "KCPPFLAGS",
    "KRUSTFLAGS",
    "LD",
    "LLVM",
    "LLVM_IAS",
    "LOCALVERSION",
    "LSMOD",
    "MAKEFLAGS",
    "MFLAGS",
    "O",
    "SRCARCH",
    "V",
    "W",
})  # fmt: skip
_SHOWN_LINES = 12


class Make:
    """Builds the tree `folder` in `out`; `variables` go on the command line, where nothing overrides them."""

    def __init__(
        self, folder: Path, out: Path, variables: Mapping[str, str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder.resolve()
        self.out = out.resolve()
        self._variables = variables
        self._environment = dict(environment or {})

    @property
    def launcher(self) -> str | None:
        """The program that starts the compiler, such as ccache or distcc; None if make starts the compiler itself."""
        before, _, compiler = self._variables.get("CC", "").partition(" ")
        return before if compiler else None

    def told(self, more: Mapping[str, str]) -> Make:
        return Make(self._folder, self.out, {**self._variables, **more}, self._environment)

    def argv(self, *words: str) -> list[str]:
        assignments = [f"{name}={value}" for name, value in self._variables.items()]
        return ["make", "-C", str(self._folder), f"O={self.out}", *assignments, *words]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        return {**inherited, **self._environment, **(more or {}), "LC_ALL": "C", "TZ": "UTC"}

    def run(self, *words: str, stdin: bytes | None = None, **more: str) -> bytes:
        """Run make and return its output. If make fails, raise KtrialError with the last lines of the output."""
        return run(self.argv(*words), self.environment(more), stdin, self._what(*words))

    def tried(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run make and return the finished process, even if make failed."""
        return _run_to_end(self.argv(*words), self.environment(), b"", self._what(*words))

    def _what(self, *words: str) -> str:
        return f"make {' '.join(words)} in {self._folder}"


class MakeFolder:
    """Configures a tree in a private folder below `work`; the end of the context removes the folder."""

    def __init__(self, tree: Path, variables: Mapping[str, str], work: Path | None) -> None:
        self._tree = tree.resolve()
        self._variables = variables
        self._work = work
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="make-", dir=self._work)
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def _out(self) -> Path:
        assert self._folder is not None, "use it as a context"
        return Path(self._folder.name)

    @property
    def _make(self) -> Make:
        return Make(self._tree, self._out, self._variables)


def run(argv: Sequence[str], environment: Mapping[str, str], stdin: bytes | None, what: str) -> bytes:
    done = _run_to_end(argv, environment, stdin or b"", what)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise KtrialError(
            f"{what} failed:\n" + "\n".join(f"  {line}" for line in said[-_SHOWN_LINES:]),
            hint="fix the error above",
        )
    return done.stdout


def _run_to_end(
    argv: Sequence[str], environment: Mapping[str, str], stdin: bytes, what: str
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(argv, input=stdin, capture_output=True, check=False, timeout=_LIMIT_S, env=environment)
    except OSError as error:
        raise KtrialError(f"cannot start {argv[0]}: {error.strerror}", hint=f"install {argv[0]}") from None
    except subprocess.TimeoutExpired:
        raise KtrialError(
            f"{what} did not end within {_LIMIT_S / 60:g} min",
            hint="run the command again when the machine is less busy",
        ) from None
