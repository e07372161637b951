# SPDX-License-Identifier: Apache-2.0
"""The digest of the code changes with each module and catalog only; optional packages have an install step."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ktrial.kit import own_code
from ktrial.kit.own_code import code_sha256, install_step


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


@pytest.mark.parametrize(
    "place, no_site, step",
    [
        ("/usr/lib/ktrial/app/ktrial", True, "install ktrial with pip, for example  pipx install 'ktrial[ui]'"),
        ("/home/me/ktrial/src/ktrial", True, f"{sys.executable} -m pip install 'textual>=8'"),
        ("/venv/lib/python3.11/site-packages/ktrial", False, f"{sys.executable} -m pip install 'textual>=8'"),
    ],
)
def test_a_package_that_pip_cannot_extend_says_how_to_install_ktrial_instead(
    place: str, no_site: bool, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = SimpleNamespace(no_site=no_site)
    monkeypatch.setattr(own_code, "sys", SimpleNamespace(flags=flags, executable=sys.executable))
    monkeypatch.setattr(own_code, "_PACKAGE", Path(place))
    assert install_step("textual>=8", "ui") == step
