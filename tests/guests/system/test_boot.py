# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel boot` and `inspect` on real kernels: streams, status, isolation, exact guests.

An emulated boot costs some 5 s on a quiet machine, an exact one (two at once) some 10 s.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.guests.system.kernels import KERNELS, Kernel, fetch, release

LOOK = "echo out; echo err >&2; ls /sys/block /sys/class/net; cat /proc/mounts; exit 7"
#: Time and chance as an exact guest sees them, and some work.
EXACT = "cat /proc/uptime /proc/sys/kernel/random/boot_id; head -c 300000 /dev/urandom | md5sum; cat /proc/stat"
LIMIT = "240s"


def ktrial(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command's result."""
    return subprocess.run(
        [sys.executable, "-m", "ktrial", *arguments], capture_output=True, text=True, check=False, env=dict(os.environ)
    )


def boot(kernel: Kernel, mode: str, script: str, *arguments: str) -> Any:
    """What `kernel boot --json` tells of this script."""
    fetch(kernel)
    options = ["--mode", mode, "--limit", LIMIT, "--tool", "busybox", "--json", *arguments]
    done = ktrial("kernel", "boot", str(kernel.tree), *options, "--", "/bin/busybox", "sh", "-c", script)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_guest_is_faithful_and_has_nothing_of_the_host(kernel: Kernel) -> None:
    told = boot(kernel, "emulated", LOOK)
    assert (told["exit_status"], told["stderr"]) == (7, "err\n")
    first, *seen = told["stdout"].splitlines()
    assert first == "out"
    assert told["guest"]["release"] == release(kernel.tree)
    network = seen[seen.index("/sys/class/net:") + 1 :]
    assert network[0] == "lo"
    assert not [line for line in seen if line.startswith(("sd", "vd", "nvme", "eth", "en", "/dev/"))]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_an_exact_guest_is_the_same_each_time_and_another_one_is_not(kernel: Kernel) -> None:
    told = boot(kernel, "exact", EXACT)
    assert told["exit_status"] == 0, told
    assert told["exact"]["runs"] == (2 if told["exact"]["odd"] is None else 3)
    if kernel is KERNELS[-1]:
        assert boot(kernel, "exact", EXACT)["exact"]["sha256"] == told["exact"]["sha256"]
        other = boot(kernel, "exact", EXACT, "--append", "ktrial.placebo=1")
        assert other["exact"]["sha256"] != told["exact"]["sha256"]


def test_a_panic_is_told_with_what_the_console_showed() -> None:
    fetch(KERNELS[0])
    # A panic takes with it what is still in the pipe to the agent. What was printed has left when the line, on which
    # nothing was waiting, has sent more than before.
    sent = "grep ^1: /proc/tty/driver/serial"
    script = f'stty -F /dev/ttyS1 raw; was=$({sent}); echo before; while [ "$was" = "$({sent})" ]; do sleep 1; done; '
    options = ["--mode", "emulated", "--limit", LIMIT, "--tool", "busybox"]
    panic = "sleep 1; echo c > /proc/sysrq-trigger; sleep 100"
    done = ktrial("kernel", "boot", str(KERNELS[0].tree), *options, "--", "/bin/busybox", "sh", "-c", script + panic)
    assert (done.returncode, done.stdout) == (125, "before\n"), done.stderr
    assert "the kernel panicked: sysrq triggered crash; last lines of its console:" in done.stderr


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_is_what_its_configuration_and_its_guest_say(kernel: Kernel) -> None:
    fetch(kernel)
    told = json.loads(ktrial("kernel", "inspect", str(kernel.tree), "--json").stdout)["identity"]
    assert told["release"] == release(kernel.tree)
    assert told["scheduler"] == {"6.1": "CFS", "6.12": "EEVDF"}[kernel.name]
    assert (told["hz"], told["lto"], told["btf"]) == (250, "none", True)
    assert "gcc-12" in told["compiler"]
    notes = boot(kernel, "emulated", "od -An -v -tx1 /sys/kernel/notes; cat /proc/version")["stdout"]
    *hexadecimal, version = notes.splitlines()
    assert told["build_id"] in "".join(hexadecimal).replace(" ", "")
    assert version.endswith(told["build"])
