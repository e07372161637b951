# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ktrial.cli.measuring import check_output
from ktrial.domain.errors import BadInput


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, bind, lambda path: path.symlink_to("/dev/null")])
@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, make: Callable[[Path], None], force: bool) -> None:
    make(tmp_path / "out")
    with pytest.raises(BadInput, match="a device, a pipe or a socket"):
        check_output(tmp_path / "out", force=force)


def test_a_file_is_replaced_when_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(BadInput, match="exists already"):
        check_output(tmp_path / "out", force=False)
    check_output(tmp_path / "out", force=True)
