# SPDX-License-Identifier: Apache-2.0
"""How busy a load generator was, from made contents of its kernel's files."""

from __future__ import annotations

import pytest

from ktrial.bench.benchmark import RawOutput
from ktrial.bench.generator_readings import (
    GeneratorLook,
    generator_notes,
    limit_files,
    with_readings,
)
from ktrial.bench.record import GeneratorRun

FOUND = GeneratorRun(name="load1", measured="web1", identity="some CPU")
GROUP = "/sys/fs/cgroup/a/cpu.stat"
OUTER = "/sys/fs/cgroup/cpu.stat"
#: Ten seconds of wall time, in which the program used four seconds of CPU time.
RAW = RawOutput(exit_status=0, wall_ns=10_000_000_000, user_us=3_000_000, system_us=1_000_000)


def texts(busy: int, idle: int, **more: str) -> dict[str, str | None]:
    """Files of a kernel with two CPUs; the times are in ticks."""
    snmp = "Tcp: RtoAlgorithm RetransSegs InErrs\nTcp: 1 {again} 0"
    device = "Inter-| Receive\n lo: 1 1 9 9 0 0 0 0 1 1 9 9 0 0 0 0\n eth0: 1 1 {errors} 50 0 0 0 0 1 1 0 0 0 0 0 0"
    return {
        "/proc/stat": f"cpu {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3 4",
        "/proc/schedstat": f"version 15\ntimestamp 7\ncpu0 0 0 0 0 0 0 100 {more.get('delay', '0')} 5\ndomain0 03 1",
        "/proc/pressure/cpu": f"some avg10=1.00 avg60=1.00 avg300=1.00 total={more.get('waited', '0')}\nfull total=9",
        "/proc/net/snmp": snmp.format(again=more.get("again", "0")),
        "/proc/net/dev": device.format(errors=more.get("errors", "0")),
        GROUP: f"usage_usec 5\nthrottled_usec {more.get('held', '0')}",
        OUTER: "usage_usec 5",
    }


def read(after: dict[str, str | None], raw: RawOutput = RAW, threads: int = 1) -> GeneratorRun:
    return with_readings(FOUND, (GeneratorLook(5.0, texts(0, 0)), GeneratorLook(15.0, after)), raw, threads)


def test_each_reading_comes_from_what_grew() -> None:
    found = read(texts(500, 1500, delay="2000000000", waited="3000000", again="7", errors="2"))
    assert found.program_share == pytest.approx(0.4)
    assert found.machine_share == pytest.approx(0.25)
    assert found.throttled_share == 0
    assert found.busy_share == pytest.approx(0.4)
    assert found.waiting_share == pytest.approx(0.3)
    assert found.run_delay_s == pytest.approx(2.0)
    assert (found.retransmits, found.network_errors) == (7, 2)
    assert generator_notes(found) == ("the load generator's network lost or damaged 2 packets during the run",)


def test_a_program_with_more_threads_has_more_cpus_to_fill() -> None:
    assert read(texts(0, 2000), threads=4).program_share == pytest.approx(0.1)


def test_a_machine_without_idle_time_is_busy_whatever_the_program_used() -> None:
    assert read(texts(1900, 100)).busy_share == pytest.approx(0.95)


def test_a_cpu_limit_counts_as_need() -> None:
    found = read(texts(0, 2000, held="5500000"))
    assert found.throttled_share == pytest.approx(0.55)
    assert found.busy_share == pytest.approx(0.95)


def test_what_a_kernel_does_not_tell_is_unknown_not_zero() -> None:
    nothing = dict.fromkeys(texts(0, 0))
    found = read(nothing, RawOutput(exit_status=0))
    assert found == FOUND
    assert read(nothing).busy_share == pytest.approx(0.4), "the program alone"
    assert with_readings(FOUND, None, RAW, 2).busy_share == pytest.approx(0.2)
    assert generator_notes(FOUND) == ()


def test_a_counter_that_began_anew_is_unknown() -> None:
    early, late = texts(0, 0, again="9", held="9"), texts(1, 1)
    found = with_readings(FOUND, (GeneratorLook(0.0, early), GeneratorLook(1.0, late)), RAW, 1)
    assert found.retransmits is None
    assert found.throttled_share is None


def test_the_limits_of_all_groups_above_count() -> None:
    assert limit_files("0::/a/b") == (OUTER, GROUP, "/sys/fs/cgroup/a/b/cpu.stat")
    old = "9:memory:/m\n4:cpu,cpuacct:/a\n0::/"
    assert limit_files(old) == ("/sys/fs/cgroup/cpu/cpu.stat", "/sys/fs/cgroup/cpu/a/cpu.stat", OUTER)
    assert limit_files(None) == ()
