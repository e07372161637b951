# SPDX-License-Identifier: Apache-2.0
"""Block devices of a diagnosis, on histograms that were made up: no real drive that sleeps has been seen."""

from __future__ import annotations

import msgspec

from ktrial.recordings.latency import Latencies, PowerState
from ktrial.watch.diagnosis.devices import device_rows, device_sentences, devices
from ktrial.watch.diagnosis.model import DeviceFound
from tests.support.recordings import recording

STATES = (PowerState(id=4, operational=False, entry_latency_us=500, exit_latency_us=9500),)
QUICK = ((0.0001, 400), (0.000125, 600), (0.00016, 200))
SLOW = ((0.008, 3), (0.01, 20), (0.012, 10))


def found(
    after_idle: tuple[tuple[float, int], ...], states: tuple[PowerState, ...] = STATES
) -> tuple[DeviceFound, ...]:
    one = Latencies(requests=1233, bytes=1, flushes=0, histogram=(*QUICK, *SLOW), after_idle=after_idle, states=states)
    quiet = Latencies(requests=0, bytes=0, flushes=2, histogram=())
    made = recording(1, None)
    return devices(msgspec.structs.replace(made, latencies={"nvme0n1": one, "sda": quiet}))


def test_a_heap_after_idleness_fits_the_state_whose_exit_takes_as_long() -> None:
    (device,) = found(((0.000125, 5), *SLOW))
    assert [mode.state for mode in device.modes] == [None, 4]
    assert device.above_share == 33 / 1233
    (sentence,) = device_sentences((device,))
    assert "leaving power state 4 takes 9.5 ms" in sentence
    assert device_rows((device,))[0][:2] == ["nvme0n1", "1233"]


def test_a_heap_that_comes_without_idleness_is_something_else() -> None:
    for after_idle, states in ((((0.000125, 50), (0.01, 1)), STATES), (SLOW, ())):
        (device,) = found(after_idle, states)
        assert [mode.state for mode in device.modes] == [None, None]
        assert device_sentences((device,)) == []
