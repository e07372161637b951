# SPDX-License-Identifier: Apache-2.0
"""Configures a kernel tree in a separate folder and compiles single objects, to find out how the tree behaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ktrial.kernels.build.make import MakeFolder
from ktrial.kit.errors import BadInput
from ktrial.kit.files import why_unread
from ktrial.kit.formats.kernel_config import read_symbols


class ProbeBuild(MakeFolder):
    """Configures a tree from `base`, or minimally if there is no base, and compiles single objects."""

    def __init__(self, tree: Path, cc: str, base: Path | None = None, work: Path | None = None) -> None:
        super().__init__(tree, {"ARCH": "x86_64", "CC": cc}, work)
        self._base = base

    def configure(self, fragment: str, drop: frozenset[str]) -> Mapping[str, str]:
        if self._base is None:
            (self._out / "fragment").write_text(fragment, encoding="utf-8")
            self._make.run("allnoconfig", KCONFIG_ALLCONFIG=str(self._out / "fragment"))
        else:
            try:
                lines = self._base.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                why = why_unread(error) if isinstance(error, OSError) else "not UTF-8 text"
                hint = "name a .config of a kernel build with --config"
                raise BadInput(why, file=str(self._base), hint=hint) from None
            kept = [line for line in lines if _symbol(line) not in drop]
            (self._out / ".config").write_text("\n".join([*kept, fragment]), encoding="utf-8")
        self._make.run("olddefconfig")
        return read_symbols((self._out / ".config").read_bytes())

    def compile(self, target: str) -> bytes:
        return self._make.run("V=1", target)

    def why_no_rust(self) -> str | None:
        """Return why `make rustavailable` fails, as a clause; None if Rust is available."""
        done = self._make.tried("rustavailable")
        if done.returncode == 0:
            return None
        said = done.stderr.decode(errors="replace").splitlines()
        complaints = [line.strip("* ") for line in said if line.startswith("***")]
        words = " ".join(line for line in complaints if line)
        return (
            f"`make rustavailable` says {words.partition(' Please see ')[0]!r}"
            if words
            else "`make rustavailable` fails"
        )


def _symbol(line: str) -> str:
    words = line.removeprefix("# ").partition("=")[0].split()
    return words[0].removeprefix("CONFIG_") if words else ""
