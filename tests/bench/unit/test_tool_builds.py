# SPDX-License-Identifier: Apache-2.0
"""Builds of a kernel, the Python loop and boot times: how they are invoked, and what of their output is refused."""

from __future__ import annotations

import hashlib
import pkgutil
import re
from typing import Any

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import Invocation, RawOutput
from ktrial.kit.errors import BadInput, BadRun, UnknownName
from ktrial.machine.facts import Fact, FactBook

ALL = all_benchmarks()
CONFIG = b"""#
# Automatically generated file; DO NOT EDIT.
# Linux/x86 6.12.117 Kernel Configuration
#
CONFIG_CC_VERSION_TEXT="gcc (Debian 12.2.0-14) 12.2.0"
CONFIG_CC_IS_GCC=y
# CONFIG_SMP is not set
"""
MADE = b"savedcmd_arch/x86/boot/bzImage := arch/x86/boot/tools/build\n"
IMAGE = "build/arch/x86/boot/.bzImage.cmd"


def facts(architecture: str = "x86_64", threads: int = 6) -> FactBook:
    return FactBook({"cpu.architecture": Fact(value=architecture), "cpu.threads": Fact(value=threads)})


def build(name: str = "kernel-compile", book: FactBook | None = None, **parameters: Any) -> Invocation:
    return ALL[name].invocation({"tree": "/usr/src/linux", **parameters}, book or facts())


def built(**changes: Any) -> RawOutput:
    whole = {"files": {"build/.config": CONFIG, IMAGE: MADE}, "wall_ns": 2_500_000_000, "user_us": 4, "system_us": 5}
    return RawOutput(exit_status=0, **{**whole, **changes})


def test_a_build_is_made_out_of_the_tree_and_in_memory() -> None:
    invocation = build(config="tinyconfig")
    make = ("make", "-s", "-C", "/usr/src/linux", "O={directory}/build")
    assert invocation.argv == (*make, "-j6", "bzImage")
    assert [step.argv for step in invocation.steps] == [(*make, "tinyconfig"), (*make, "olddefconfig")]
    assert (invocation.in_memory, invocation.warm_ups) == (True, 1)
    assert invocation.files == ("build/.config", IMAGE)
    assert invocation.environment["KBUILD_BUILD_TIMESTAMP"]


def test_a_configuration_of_ones_own_is_copied() -> None:
    first = build(config="/etc/my config").steps[0]
    assert first.argv == ("install", "-D", "-m", "0600", "/etc/my config", "{directory}/build/.config")


def test_llvm_is_asked_for_in_every_step() -> None:
    invocation = build("kernel-compile-llvm")
    assert all("LLVM=1" in argv for argv in (invocation.argv, *(step.argv for step in invocation.steps)))
    assert {"clang", "ld.lld"} <= set(ALL["kernel-compile-llvm"].needs)
    assert not any("LLVM" in word for word in build().argv)


@pytest.mark.parametrize(
    "architecture, parameters, image, made",
    [
        ("aarch64", {}, "Image", "build/arch/arm64/boot/.Image.cmd"),
        ("aarch64", {"target": "Image.gz"}, "Image.gz", "build/arch/arm64/boot/.Image.gz.cmd"),
        ("x86_64", {"target": "vmlinux", "jobs": 3}, "vmlinux", "build/.vmlinux.cmd"),
        ("s390x", {"target": "vmlinux"}, "vmlinux", "build/.vmlinux.cmd"),
    ],
)
def test_the_machine_says_which_image(architecture: str, parameters: dict[str, Any], image: str, made: str) -> None:
    invocation = build(book=facts(architecture), **parameters)
    assert invocation.argv[-2:] == (f"-j{parameters.get('jobs', 6)}", image)
    assert invocation.files[1] == made


@pytest.mark.parametrize(
    "parameters, why",
    [
        ({"tree": ""}, "needs kernel sources"),
        ({"tree": "linux"}, "parameter tree"),
        ({"tree": "/a b"}, "parameter tree"),
        ({"tree": "/a:b"}, "parameter tree"),
        ({"config": "randconfig"}, "parameter config"),
        ({"config": "../x"}, "parameter config"),
        ({"target": "install"}, "parameter target"),
        ({"jobs": -1}, "parameter jobs"),
    ],
)
def test_what_cannot_be_built_is_refused(parameters: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        build(**parameters)


def test_other_refusals() -> None:
    with pytest.raises(BadInput, match="cannot choose a kernel image for s390x"):
        build(book=facts("s390x"))
    with pytest.raises(UnknownName) as caught:
        build(tre="x")
    assert caught.value.nearest == ("tree",)


@pytest.mark.parametrize(
    "name, parameters, hint",
    [
        ("kernel-compile", {"tree": "/usr/src/linux", "config": "x"}, "config=tinyconfig"),
        ("kernel-compile", {"tree": "linux"}, "tree=/usr/src/linux"),
        ("xplane", {"program": "x"}, "'program=/games/X-Plane 12/X-Plane-x86_64'"),
        ("glmark2-software", {"scenes": ["X"]}, "scenes=shading:shading=phong"),
        ("iperf3", {"qdisc": "F Q"}, "qdisc=fq"),
    ],
)
def test_the_example_for_a_wrong_value_can_be_pasted(name: str, parameters: dict[str, Any], hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        ALL[name].invocation(parameters, facts())
    assert caught.value.hint == f"for example -p {hint}"


def test_a_build_without_an_image_is_refused() -> None:
    benchmark = ALL["kernel-compile"]
    parsed = benchmark.parse(built(), {})
    assert [(one.outcome, one.value, one.original) for one in parsed.measurements] == [
        ("time", 2.5, "2500000000 ns"),
        ("user", 4e-6, "4 us"),
        ("system", 5e-6, "5 us"),
    ]
    digest = hashlib.sha256(CONFIG).hexdigest()
    assert parsed.tool_version == f"gcc (Debian 12.2.0-14) 12.2.0; Linux 6.12.117; config {digest[:12]}"
    assert (parsed.details["config_sha256"], parsed.details["symbols"]) == (digest, 2)
    for files in ({"build/.config": CONFIG}, {"build/.config": CONFIG, IMAGE: b""}, {IMAGE: MADE}):
        with pytest.raises(BadRun):
            benchmark.parse(built(files=files), {})


@pytest.mark.parametrize(
    "old, new", [(b"CONFIG_CC_VERSION_TEXT", b"CONFIG_CC"), (b"# Linux/", b"# "), (b'12.2.0"', b"12.2.0")]
)
def test_a_configuration_that_does_not_tell_its_origin_is_refused(old: bytes, new: bytes) -> None:
    damaged = {"build/.config": CONFIG.replace(old, new), IMAGE: MADE}
    with pytest.raises(BadRun, match=r"build/\.config"):
        ALL["kernel-compile"].parse(built(files=damaged), {})


def test_the_loop_is_given_on_stdin_to_an_interpreter_without_site() -> None:
    invocation = ALL["cpython-loop"].invocation({"loops": 7}, facts())
    assert invocation.argv == ("python3", "-I", "-S", "-", "7")
    assert invocation.stdin == pkgutil.get_data("ktrial.bench.adapters.cpython_loop", "loop.py.txt")


def test_the_loops_parts_compute_what_is_known() -> None:
    """Sum of the primes below 100, solutions of six queens, steps from 1 to 5 down to 1: from tables."""
    text = pkgutil.get_data("ktrial.bench.adapters.cpython_loop", "loop.py.txt") or b""
    parts: dict[str, Any] = {"__name__": "loop"}
    exec(compile(text, "loop.py.txt", "exec"), parts)  # noqa: S102 (the program under test)
    assert (parts["sieve"](100), parts["queens"](6), parts["collatz"](5)) == (1060, 4, 0 + 1 + 7 + 2 + 5)


def test_another_interpreter_is_refused() -> None:
    told = b'{"implementation": "pypy", "version": "7.3", "results": [1], "times_ns": [5]}'
    with pytest.raises(BadRun, match="expected CPython as python3, got pypy"):
        ALL["cpython-loop"].parse(RawOutput(stdout=told, exit_status=0), {"loops": 1})


def test_a_boot_is_measured_once() -> None:
    invocation = ALL["boot-time"].invocation({}, facts())
    assert (invocation.argv, invocation.once_per_boot) == (("systemd-analyze", "time"), True)


@pytest.mark.parametrize(
    "text, note",
    [
        (
            "1.5s (kernel) + 2s (userspace) = 9s",
            "the parts add up to 3.500 s, but systemd-analyze reports a total of 9s",
        ),
        ("2s (userspace)", "there is no total"),
        ("1s (previous exitrd) + 2s (userspace) = 3s", "the part previous exitrd has no outcome: 1s"),
        ("2s (userspace) = 2s\nrescue.target reached after 1s in userspace.", "rescue.target has no outcome"),
        ("2s (userspace) = 2s\ngraphical.target was never reached.", "the default target was not reached"),
    ],
)
def test_doubtful_boots_are_noted(text: str, note: str) -> None:
    raw = RawOutput(stdout=f"Startup finished in {text}\n".encode(), exit_status=0)
    assert any(re.search(re.escape(note), found) for found in ALL["boot-time"].parse(raw, {}).notes)
