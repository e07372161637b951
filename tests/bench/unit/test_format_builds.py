# SPDX-License-Identifier: Apache-2.0
"""Readers of boot times, of configurations of kernels and of the Python loop, beside what holds for all readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ktrial.bench.adapters
from ktrial.bench.adapters.boot_time.output import read_boot_times
from ktrial.bench.adapters.cpython_loop.output import read_loop_run
from ktrial.kit.errors import UnreadableOutput
from ktrial.kit.formats.kernel_config import read_kernel_config

CASES = Path(ktrial.bench.adapters.__file__).parent


@pytest.mark.parametrize(
    "span, seconds",
    [
        ("784ms", 0.784),
        ("19.112s", 19.112),
        ("1min 30.630s", 90.63),
        ("2h 3min 1s", 7381.0),
        ("1d 1h", 90_000.0),
        ("433us", 0.000433),
        ("1w 2d", 777_600.0),
        ("0", 0.0),
    ],
)
def test_spans(span: str, seconds: float) -> None:
    boot = read_boot_times(f"Startup finished in {span} (userspace) = {span} \n".encode())
    assert boot.total is not None
    assert (boot.total.value, boot.total.original) == (seconds, span)
    assert boot.terms["userspace"] == boot.total


@pytest.mark.parametrize("span", ["", "1", "1,5s", "30s 1min", "1s 2s", "-1s", "1.5.2s", "infinity", "n/a", "1 s"])
def test_what_is_no_span_is_refused(span: str) -> None:
    with pytest.raises(UnreadableOutput):
        read_boot_times(f"Startup finished in {span} (userspace) = 2s\n".encode())
    with pytest.raises(UnreadableOutput):
        read_boot_times(f"Startup finished in 1s (userspace) = {span or '?'}\n".encode())


@given(microseconds=st.integers(1000, 10**13))
def test_every_span_that_systemd_writes_is_read(microseconds: int) -> None:
    rest, words = microseconds // 1000 * 1000, []
    for unit, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000)):
        words += [f"{rest // size}{unit}"] if rest // size else []
        rest %= size
    if rest:
        words.append(f"{rest // 1_000_000}.{rest // 1000 % 1000:03}s" if rest >= 1_000_000 else f"{rest // 1000}ms")
    boot = read_boot_times(f"Startup finished in {' '.join(words)} (userspace)\n".encode())
    assert boot.terms["userspace"].value == pytest.approx(microseconds // 1000 / 1000, abs=1e-9)


def test_a_term_twice_is_refused() -> None:
    with pytest.raises(UnreadableOutput):
        read_boot_times(b"Startup finished in 1s (kernel) + 1s (kernel) = 2s\n")


def test_a_container_has_neither_total_nor_target() -> None:
    boot = read_boot_times(b"Startup finished in 1.204s (userspace) \n")
    assert (boot.total, boot.target, boot.reached) == (None, None, None)


def loop(**changes: Any) -> bytes:
    whole = {"implementation": "cpython", "version": "3.11.2", "results": [5], "times_ns": [7, 8]}
    return json.dumps({**whole, **changes}).encode()


def test_a_loop_run() -> None:
    assert read_loop_run(loop()).times_ns == (7, 8)


@pytest.mark.parametrize("key", ["implementation", "version", "results", "times_ns"])
@pytest.mark.parametrize("value", [None, [], "", [-1], [1.5], ["7"], [True], 7, {}, [10**31]])
def test_a_loop_run_with_something_else_is_refused(key: str, value: object) -> None:
    with pytest.raises(UnreadableOutput, match=r"^stdout"):
        read_loop_run(loop(**{key: value}))


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ("CONFIG_CC_VERSION_TEXT=gcc", "a line of the form"),
        ('CONFIG_CC_VERSION_TEXT="a"\n' * 2, "the only line of the form"),
    ],
)
def test_a_wrong_compiler_line_is_told_from_a_second_one(lines: str, wanted: str) -> None:
    with pytest.raises(UnreadableOutput, match=f"is not {wanted} CONFIG_CC_VERSION_TEXT="):
        read_kernel_config(lines.encode(), "here")


@given(data=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    for reader in (read_loop_run, read_kernel_config):
        with pytest.raises(UnreadableOutput, match="here"):
            reader(data, "here")


@given(seed=st.integers(0, 2**32), cut=st.integers(1, 400), junk=st.binary(max_size=30))
def test_damaged_files_are_refused_or_read(seed: int, cut: int, junk: bytes) -> None:
    """Pieces of real files taken out or overwritten: the declared error, or a record with sane numbers."""
    config = (CASES / "kernel_compile/cases/6.12-tinyconfig/files/build/.config").read_bytes()[:3000]
    for reader, data in ((read_kernel_config, config), (read_loop_run, loop())):
        at = seed % len(data)
        try:
            record = reader(data[:at] + junk + data[at + cut :], "here")
        except UnreadableOutput as error:
            assert (error.source, len(error.message) < 1000) == ("here", True)
        else:
            assert getattr(record, "symbols", 0) >= 0
