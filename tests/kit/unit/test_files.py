# SPDX-License-Identifier: Apache-2.0
"""Files that cannot be read: why, and a hint that helps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktrial.kit.errors import BadInput
from ktrial.kit.files import read_file


@pytest.mark.parametrize(
    "name, why, hint",
    [
        ("missing", "no such file", "check the path"),
        ("file/inside", "not a directory", "check the path"),
        ("closed", "permission denied", "check the permissions of the file and its folders"),
        (".", "not a regular file", "name a file, not a folder, pipe or device"),
    ],
)
def test_the_hint_fits_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str, hint: str
) -> None:
    (tmp_path / "file").touch()
    if name == "closed":  # root may read everything

        def refuse(*_: object) -> int:
            raise PermissionError(13, os.strerror(13))

        monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(BadInput, match=why) as caught:
        read_file(tmp_path / name, 100)
    assert caught.value.hint == hint
