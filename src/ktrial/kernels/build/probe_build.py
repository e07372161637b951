# SPDX-License-Identifier: Apache-2.0
"""Configures a kernel tree outside of it and compiles single objects, to see what the tree really does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from ktrial.kernels.build.make import Make
from ktrial.kit.errors import BadInput
from ktrial.kit.formats.kernel_config import read_symbols


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

    @property
    def _make(self) -> Make:
        return Make(self._tree, self._out, {"ARCH": "x86_64", "CC": self._cc})

    def configure(self, fragment: str, drop: frozenset[str]) -> Mapping[str, str]:
        if self._base is None:
            (self._out / "fragment").write_text(fragment, encoding="utf-8")
            self._make.run("allnoconfig", KCONFIG_ALLCONFIG=str(self._out / "fragment"))
        else:
            try:
                lines = self._base.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise BadInput(f"cannot be read: {error}", file=str(self._base)) from None
            kept = [line for line in lines if _symbol(line) not in drop]
            (self._out / ".config").write_text("\n".join([*kept, fragment]), encoding="utf-8")
        self._make.run("olddefconfig")
        return read_symbols((self._out / ".config").read_bytes())

    def compile(self, target: str) -> bytes:
        return self._make.run("V=1", target)

    def why_no_rust(self) -> str | None:
        """Return what `make rustavailable` says against it; None if it says nothing."""
        done = self._make.tried("rustavailable")
        if done.returncode == 0:
            return None
        said = done.stderr.decode(errors="replace").splitlines()
        told = [line.strip("* ") for line in said if line.startswith("***")]
        words = " ".join(line for line in told if line)
        return f"`make rustavailable` says: {words.partition(' Please see ')[0] or 'nothing'}"


def _symbol(line: str) -> str:
    """Return the symbol that a line of a configuration is about."""
    words = line.removeprefix("# ").partition("=")[0].split()
    return words[0].removeprefix("CONFIG_") if words else ""
