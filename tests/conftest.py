# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import atexit
import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.alone import the_machine
from tests.support.long import IS_LONG, long_tests
from tests.support.tree import FakeRoot, use_compiled_catalog
from tests.support.user import CHECKOUT, forget_set_ups

# The same inputs in every ./check, so that a failure is a change's own; `./check --full` draws new ones, and more.
settings.register_profile("same", derandomize=True, database=None, deadline=None, max_examples=35)
settings.register_profile("new", database=None, deadline=None, max_examples=100)
settings.load_profile(os.environ.get("KTRIAL_FUZZ", "same"))
# Started in the background of a script or by nohup, ./check inherits an ignored SIGINT or SIGHUP, and so would all that
# the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# What is collected stays: the collector of garbage need not go through it again and again, nor at the end.
gc.disable()
atexit.register(gc.unfreeze)  # DuckDB counts what it leaves at the end of the process


def pytest_configure(config: pytest.Config) -> None:
    """Let each worker begin to collect at another folder: a module that one of them has compiled, the others load."""
    worker = getattr(config, "workerinput", None)
    if worker is not None and all(Path(folder).is_dir() for folder in config.args):
        begin = len(config.args) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        config.args[:] = config.args[begin:] + config.args[:begin]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what ./check leaves to ./check --full, unless a test is asked for by its name."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.parent)  # all workers have one order
    for item in items:
        # On one worker they follow each other; on several, each would wait for the lock of another.
        if "machine_alone" in getattr(item, "fixturenames", ()) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("machine"))
    if IS_LONG or any("::" in word for word in config.args):
        return
    names = long_tests()
    left = [item for item in items if item.nodeid.startswith(names)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.nodeid.startswith(names)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove the set-up that the users of this run shared. A worker of xdist leaves that to its controller."""
    if not hasattr(session.config, "workerinput"):
        forget_set_ups()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A folder on the disk of the checkout; `tmp_path` may be in memory."""
    with tempfile.TemporaryDirectory(prefix="test-", dir=CHECKOUT / ".setup") as folder:
        yield Path(folder)


@pytest.fixture
def machine_alone() -> Iterator[None]:
    """The machine itself, for one test at a time."""
    with the_machine():
        yield


@pytest.fixture
def real_machine(machine_alone: None) -> None:
    """The machine's own knobs, alone. Fails without root."""
    assert os.geteuid() == 0, "this test writes the machine's knobs: run ./check as root"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    """A fake machine, and a home of its own for the head."""
    home = tmp_path / "home"
    home.mkdir()
    use_compiled_catalog(home)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "root"
    folder.mkdir()
    return FakeRoot(folder)
