# SPDX-License-Identifier: Apache-2.0
"""Configures a kernel tree outside of it and compiles single objects, to see what the tree really does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from ktrial.domain.errors import BadInput, KtrialError
from ktrial.formats.kernel_config import read_symbols

_LIMIT_S = 900.0
#: What of the environment would change how the kernel is compiled.
_NOT_INHERITED = (
    "KCFLAGS",
    "KCPPFLAGS",
    "KRUSTFLAGS",
    "MAKEFLAGS",
    "MFLAGS",
    "LLVM",
    "CROSS_COMPILE",
    "KCONFIG_CONFIG",
)


class ProbeBuild:
    """Use it as a context: what was built, below the private folder `work`, is gone at the end."""

    def __init__(self, tree: Path, cc: str, base: Path | None = None, work: Path | None = None) -> None:
        self._tree = tree.resolve()
        self._cc = cc
        self._base = base
        self._work = work
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> ProbeBuild:
        self._folder = TemporaryDirectory(prefix="build-", dir=self._work)
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def _out(self) -> Path:
        assert self._folder is not None, "use it as a context"
        return Path(self._folder.name)

    def configure(self, fragment: str, drop: frozenset[str]) -> Mapping[str, str]:
        """The configuration that comes of the base, without the symbols of `drop`, and the fragment."""
        if self._base is None:
            (self._out / "fragment").write_text(fragment, encoding="utf-8")
            self._make("allnoconfig", KCONFIG_ALLCONFIG=str(self._out / "fragment"))
        else:
            try:
                lines = self._base.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise BadInput(f"cannot be read: {error}", file=str(self._base)) from None
            kept = [line for line in lines if _symbol(line) not in drop]
            (self._out / ".config").write_text("\n".join([*kept, fragment]), encoding="utf-8")
        self._make("olddefconfig")
        return read_symbols((self._out / ".config").read_bytes())

    def compile(self, target: str) -> bytes:
        """What a verbose build of one object prints."""
        return self._make("V=1", target)

    def why_no_rust(self) -> str | None:
        """What `make rustavailable` says against it; None where it says nothing."""
        done = self._run("rustavailable")
        if done.returncode == 0:
            return None
        said = done.stderr.decode(errors="replace").splitlines()
        told = [line.strip("* ") for line in said if line.startswith("***")]
        words = " ".join(line for line in told if line)
        return f"`make rustavailable` says: {words.partition(' Please see ')[0] or 'nothing'}"

    def _make(self, *words: str, **environment: str) -> bytes:
        done = self._run(*words, **environment)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise KtrialError(f"make {' '.join(words)} in {self._tree} failed:\n" + "\n".join(said[-12:]))
        return done.stdout

    def _run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        argv = ["make", "-C", str(self._tree), f"O={self._out}", "ARCH=x86_64", f"CC={self._cc}", *words]
        try:
            return subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_LIMIT_S,
                env={**inherited, **environment, "LC_ALL": "C"},
            )
        except OSError as error:
            raise KtrialError(f"make cannot be started: {error.strerror}", hint="install make") from None
        except subprocess.TimeoutExpired:
            raise KtrialError(f"make {' '.join(words)} did not end within {_LIMIT_S:g} s") from None


def _symbol(line: str) -> str:
    """The symbol that a line of a configuration is about."""
    words = line.removeprefix("# ").partition("=")[0].split()
    return words[0].removeprefix("CONFIG_") if words else ""
