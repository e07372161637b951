# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from ktrial.agent.user_folders import cache_folder, config_folder, state_folder


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_folders_of_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/c")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert config_folder() == Path("/home/x/.config/ktrial")
    assert cache_folder() == Path("/var/tmp/c/ktrial")
    assert state_folder() == Path("/home/x/.local/state/ktrial")


@pytest.mark.parametrize("home", ["", "relative", None])
def test_a_home_that_is_no_path_is_looked_up_and_never_below_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    if home is None:
        monkeypatch.delenv("HOME", raising=False)
    else:
        monkeypatch.setenv("HOME", home)
    assert config_folder() == Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".config/ktrial"


def test_a_user_whom_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)
    assert not cache_folder().exists()
