# SPDX-License-Identifier: Apache-2.0
"""The digest of the code changes with each module and catalog, and with nothing else."""

from __future__ import annotations

from pathlib import Path

from ktrial.kit.own_code import code_sha256


def test_it_changes_with_modules_and_catalogs_only(tmp_path: Path) -> None:
    def digest() -> str:
        return code_sha256.__wrapped__(tmp_path)

    (tmp_path / "a.py").write_text("x = 1\n")
    first = digest()
    (tmp_path / "a.pyc").write_text("anything")
    assert digest() == first
    (tmp_path / "a.py").write_text("x = 2\n")
    second = digest()
    (tmp_path / "knobs").mkdir()
    (tmp_path / "knobs/b.toml").write_text("")
    assert len({first, second, digest()}) == 3
