# SPDX-License-Identifier: Apache-2.0
"""Every adapter whose tool Debian packages is really run once, with tiny parameters, and its output is read."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import PROGRAM_FOLDERS, Benchmark, ParsedRun, RawOutput, check_exit, check_measurements
from ktrial.kit.errors import BadRun
from ktrial.machine.facts import FactBook

#: A build needs a tree (test_kernel_compile.py), a boot time a machine that systemd booted (below), a watch an agent
#: beside it (test_watch_bench.py), MangoHud a program
#: (test_frames.py), and X-Plane is not a package (benchmarks/test_xplane.py).
ELSEWHERE = {
    "kernel-compile",
    "kernel-compile-llvm",
    "boot-time",
    "watch",
    "mangohud",
    "xplane",
    "xplane-replay",
}


def runs_alone(benchmark: Benchmark) -> bool:
    """Whether its argv is all of it: no server beside it (test_servers.py), no network of its own (test_network.py)."""
    invocation = benchmark.invocation(benchmark.parameters, FactBook({}))
    return not invocation.steps and invocation.network is None and not invocation.watches


BENCHMARKS = {
    name: benchmark
    for name, benchmark in all_benchmarks().items()
    if "apt" in benchmark.packages and name not in ELSEWHERE and runs_alone(benchmark)
}
TINY: dict[str, dict[str, Any]] = {
    "hackbench": {"groups": 1, "loops": 100},
    "stress-ng": {"seconds": 1, "instances": 1},
    "sysbench-mutex": {"threads": 2, "locks": 2000, "loops": 1000},
    "sysbench": {"seconds": 1, "threads": 2},
    "fio": {"seconds": 1, "ramp_seconds": 0, "size": "16m"},
    "cpython-loop": {"loops": 2},
    "cyclictest": {"seconds": 1},
    "perf-pipe": {"loops": 20_000},
    "perf-messaging": {"groups": 1, "loops": 100},
    "perf-memcpy": {"size": "16MB", "loops": 4},
    "perf-futex-hash": {"seconds": 1},
    "perf-futex-wake": {"threads": 4},
    "glmark2": {"scenes": ["build", "shading:shading=phong"], "seconds": 1},
}
#: How long one run may take on a loaded machine, in seconds.
LIMIT_S = 120


def run(
    argv: tuple[str, ...],
    folder: Path,
    cpus: tuple[int, ...] | None = None,
    files: tuple[str, ...] = (),
    stdin: bytes = b"",
) -> RawOutput:
    program = shutil.which(argv[0], path=":".join(PROGRAM_FOLDERS))
    assert program is not None, f"{argv[0]} is not installed: ./check installs it from setup/debian-packages-check.txt"
    pinned = ["taskset", "-c", ",".join(str(cpu) for cpu in cpus)] if cpus else []
    done = subprocess.run(
        [*pinned, program, *argv[1:]],
        cwd=folder,
        input=stdin,
        env={"LC_ALL": "C", "PATH": ":".join(PROGRAM_FOLDERS), "HOME": str(folder)},
        capture_output=True,
        check=False,
        timeout=LIMIT_S,
    )
    return RawOutput(
        stdout=done.stdout,
        stderr=done.stderr,
        exit_status=done.returncode,
        files={name: (folder / name).read_bytes() for name in files if (folder / name).exists()},
    )


def tiny(name: str) -> dict[str, Any]:
    return next((parameters for begin, parameters in TINY.items() if name.startswith(begin)), {})


def test_every_packaged_tool_is_here() -> None:
    assert len(BENCHMARKS) >= 28
    assert all(tiny(name) for name in BENCHMARKS)


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_real_run(name: str, tmp_path: Path) -> None:
    benchmark = BENCHMARKS[name]
    invocation = benchmark.invocation(tiny(name), FactBook({}))
    if benchmark.root_reason is not None:
        assert os.geteuid() == 0, f"{name} needs root: {benchmark.root_reason}"
    # A screen made of memory stands for that of a desktop.
    argv = ("xvfb-run", "--auto-servernum", *invocation.argv) if name == "glmark2-display" else invocation.argv
    raw = run(argv, tmp_path, invocation.cpus, invocation.files, invocation.stdin)
    if name == "glmark2-device" and not Path("/dev/dri").exists():
        with pytest.raises(BadRun, match="ended with status 1"):
            check_exit(raw)
        return
    check_exit(raw)
    if name == "stress-ng-af-alg" and b"bogo-ops: 0\n" in raw.files["out.yaml"]:
        with pytest.raises(BadRun, match="did no af-alg operation"):
            benchmark.parse(raw, tiny(name))
        return
    parsed = benchmark.parse(raw, tiny(name))
    check_measurements(benchmark.outcomes, parsed)
    headlines = {outcome.name for outcome in benchmark.outcomes if outcome.headline}
    assert headlines <= {measurement.outcome for measurement in parsed.measurements}


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_version_is_told(name: str, tmp_path: Path) -> None:
    benchmark = BENCHMARKS[name]
    asked = benchmark.version_invocation()
    assert asked is not None
    version = benchmark.parse_version(run(asked.argv, tmp_path))
    assert version is not None
    assert any(character.isdigit() for character in version)


@pytest.mark.parametrize(
    "name",
    ["hackbench-pipe-thread", "perf-messaging", "sysbench-cpu", "cyclictest-fifo", "fio-seq-read", "stress-ng-pipe"],
)
def test_an_option_that_this_version_does_not_know_fails(name: str, tmp_path: Path) -> None:
    """Also where the tool ends with status 0, as cyclictest does."""
    benchmark = BENCHMARKS[name]
    invocation = benchmark.invocation(tiny(name), FactBook({}))
    raw = run((*invocation.argv, "--no-such-option"), tmp_path, files=invocation.files)
    with pytest.raises(BadRun):
        check_measurements(benchmark.outcomes, judged(benchmark, raw, name))


def judged(benchmark: Benchmark, raw: RawOutput, name: str) -> ParsedRun:
    check_exit(raw)
    return benchmark.parse(raw, tiny(name))


def test_the_boot_time_of_this_machine(tmp_path: Path) -> None:
    benchmark = all_benchmarks()["boot-time"]
    raw = run(benchmark.invocation({}, FactBook({})).argv, tmp_path)
    if not Path("/run/systemd/system").is_dir():
        with pytest.raises(BadRun, match="not been booted with systemd"):
            check_exit(raw)
        return
    parsed = benchmark.parse(raw, {})
    check_measurements(benchmark.outcomes, parsed)
    assert {"total", "userspace"} & {measurement.outcome for measurement in parsed.measurements}
