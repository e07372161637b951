# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's cards, through a library of our own that stands for the driver's: no such card is here."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ktrial.machine.nvidia import Nvml, NvmlAbsent, NvmlFailed
from ktrial.recordings.ktrial import read_recording
from ktrial.watch.record.agent_watch import NvidiaSource, nvidia
from tests.support.written_recordings import START_NS, recording

SOURCE = Path(__file__).resolve().parents[2] / "support" / "nvml.c"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nvml") / "libfake-nvml.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(made), str(SOURCE)], check=True)
    return made


@pytest.fixture
def library(built: Path, tmp_path: Path) -> tuple[str, ctypes.CDLL]:
    """A copy for each test: what is loaded stays."""
    own = tmp_path / "libnvidia-ml.so.1"
    shutil.copy(built, own)
    fake = ctypes.CDLL(str(own))
    fake.fake_set(0, 2)
    return str(own), fake


def test_what_each_card_tells_is_read_and_what_it_does_not_is_named(library: tuple[str, ctypes.CDLL]) -> None:
    name, fake = library
    cards = Nvml(name)
    values = dict(zip(cards.columns, cards.read(), strict=True))
    assert values == {
        "gpu.nvidia0.busy": 75,
        "gpu.nvidia0.memory_busy": 40,
        "gpu.nvidia0.vram_total": 8 << 30,
        "gpu.nvidia0.vram_used": 3 << 30,
        "gpu.nvidia0.power": 123456,
        "gpu.nvidia0.frequency": 1_800_000_000,
        "gpu.nvidia0.memory_frequency": 7_000_000_000,
        "gpu.nvidia1.busy": 5,
        "gpu.nvidia1.memory_busy": 40,
    }
    assert cards.columns["gpu.nvidia0.busy"].per_unit == 100
    assert cards.lacking == tuple(
        f"gpu.nvidia1.{one}" for one in ("vram_total", "vram_used", "power", "frequency", "memory_frequency")
    )
    cards.close()
    assert fake.fake_closed() == 1


@pytest.mark.parametrize(
    "status, cards, error, why",
    [(9, 2, NvmlFailed, "nvmlInit_v2: Driver Not Loaded (9)"), (0, 0, NvmlAbsent, "finds no card")],
)
def test_why_there_is_nothing_to_be_read(
    library: tuple[str, ctypes.CDLL], status: int, cards: int, error: type[Exception], why: str
) -> None:
    name, fake = library
    fake.fake_set(status, cards)
    with pytest.raises(error) as raised:
        Nvml(name)
    assert why in str(raised.value)


def test_a_library_that_is_not_there_or_another_one() -> None:
    with pytest.raises(NvmlAbsent, match="the NVIDIA driver is not installed"):
        Nvml("libnvidia-ml-of-nowhere.so.1")
    with pytest.raises(NvmlFailed, match="is not NVIDIA's library"):
        Nvml("libc.so.6")


def read_for(source: NvidiaSource, seconds: float) -> bytes:
    source.start()
    time.sleep(seconds)
    first = source.blocks()
    source.stop()
    return first + source.blocks()


def test_its_samples_become_a_source_of_the_recording(library: tuple[str, ctypes.CDLL]) -> None:
    name, fake = library
    began_ns = time.monotonic_ns()
    found = read_recording(recording(read_for(NvidiaSource(50.0, name), 0.3)), "r")
    source = found.source("nvidia")
    assert source is not None
    assert (source.state, source.wanted_hz) == ("active", 50.0)
    assert source.seen is not None
    assert source.cost_cpu_s is not None
    load = found.series["gpu.nvidia0.busy"]
    assert 5 <= len(load.values) == source.seen <= 16
    assert set(load.values) == {0.75}
    assert found.series["gpu.nvidia0.power"].values[0] == 123.456
    assert 0 <= load.times_s[0] - (began_ns - START_NS) / 1e9 < 0.2, "on the monotonic clock"
    assert fake.fake_closed() == 1


def test_a_card_that_is_lost_fails_the_source_from_then_on(library: tuple[str, ctypes.CDLL]) -> None:
    name, fake = library
    source = NvidiaSource(100.0, name)
    fake.fake_lose(12)
    found = read_recording(recording(read_for(source, 0.3)), "r").source("nvidia")
    assert found is not None
    assert (found.state, found.why) == ("failed", "nvmlDeviceGetUtilizationRates: GPU is lost (15)")
    assert found.seen == 5


def test_without_a_library_the_recording_says_that_it_is_absent() -> None:
    found = read_recording(recording(read_for(NvidiaSource(5.0, "libnvidia-of-nowhere.so"), 0.0)), "r")
    source = found.source("nvidia")
    assert source is not None
    assert (source.state, source.why) == (
        "absent",
        "no libnvidia-of-nowhere.so: the NVIDIA driver is not installed",
    )


def test_rates_that_make_no_sense() -> None:
    from ktrial.kit.errors import BadInput

    assert nvidia(0) is None
    assert nvidia(None) is not None
    with pytest.raises(BadInput, match="expected 0, or 1 to 100 Hz"):
        nvidia(200)
