# SPDX-License-Identifier: Apache-2.0
"""`ktrial schedulers` with real sched_ext schedulers, in a guest of a kernel that has sched_ext."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from tests.guests.system.kernels import FORKY, run
from tests.guests.system.machine import GuestMachine, ktrial
from tests.guests.system.places import CHECKOUT

pytestmark = [pytest.mark.timeout(3000)]
SOURCES = CHECKOUT / "tests" / "support" / "schedulers"
KINDS = {"fifo": 1, "slow": 2, "eject": 3, "hang": 4}
#: A folder of programs that is empty in the guest, except for the schedulers.
FOLDER = "/usr/local/bin"
#: Stands for a scheduler that looks for a topology and does not find it.
WIDE = "#!/bin/sh\necho 'Error: no second LLC, this scheduler needs two' >&2\nexit 1\n"


def built(folder: Path) -> str:
    """The lines of a script that installs the schedulers, which are built here."""
    loader = folder / "loader"
    run(["cc", "-O2", "-Wall", "-Werror", "-o", str(loader), str(SOURCES / "loader.c"), "-lbpf"])
    lines = [f"mount -t tmpfs none {FOLDER}", f"cp /run/job/wide {FOLDER}/scx_ktrial_wide", carried(loader)]
    for name, kind in KINDS.items():
        out = folder / f"{name}.bpf.o"
        words = [f"-DKIND={kind}", f'-DNAME="ktrial_{name}"', "-I/usr/include/x86_64-linux-gnu"]
        command = ["clang", "-target", "bpf", "-O2", "-g", "-Wall", "-Werror", *words]
        run([*command, "-c", str(SOURCES / "scheduler.bpf.c"), "-o", str(out)])
        lines.append(carried(out))
        lines.append(f"printf '#!/bin/sh\\nexec /run/{loader.name} /run/{out.name}\\n' > {FOLDER}/scx_ktrial_{name}")
    return "\n".join([*lines, f"chmod 755 /run/{loader.name} {FOLDER}/scx_*"])


def carried(file: Path) -> str:
    """The lines of a script that writes this file into /run: the guest has another /tmp."""
    return f"base64 -d > /run/{file.name} << 'end'\n{base64.encodebytes(file.read_bytes()).decode()}end"


LOAD = "--suite agent-messaging-pipe -p messages=100 -p groups=1 -p senders=2 -p receivers=2"
DESIGN = f"{LOAD} --no-profile --settle 0s --anyway --seed 3".split()
TRIED = [word for name in ("fifo", "slow", "eject", "wide") for word in ("--only", f"ktrial_{name}")]


def test_a_bad_one_is_named_an_ejected_one_has_failed_and_the_kernels_own_is_not_claimed(tmp_path: Path) -> None:
    machine = GuestMachine(tmp_path)
    script = "\n".join(
        (
            built(tmp_path),
            ktrial("schedulers", *TRIED, "--placebo", "--budget", "9", *DESIGN),
            "echo after $(cat /sys/kernel/sched_ext/state)",
            ktrial("trial", "recheck"),
        )
    )
    said = machine.boot(FORKY, script, {"wide": WIDE}, limit_s=2700, counts=True)
    told = "\n".join(said)
    verdicts = dict(re.findall(r"^(\S+)(?: \(placebo\))? +time +([a-z]+)", told, re.MULTILINE))
    assert verdicts.get("ktrial_slow") == "worse", told
    assert verdicts["placebo"] not in {"better", "worse"}, told
    assert verdicts["ktrial_eject"] != "better", told
    joined = " ".join(told.split())
    assert re.search(r"ktrial_eject: \d+ failed runs? of \d+; the last: .*the kernel says: .*as planned", joined), told
    assert re.search(r"skipped ktrial_wide: .* no second LLC, this scheduler needs two", joined), told
    assert re.search(r"^(stay with EEVDF: |use scx_ktrial_fifo: )", told, re.MULTILINE), told
    assert "after disabled" in told
    assert [line for line in said if line.startswith("status ")] == ["status 0", "status 0"], told


def test_one_that_hangs_tasks_is_ejected_by_the_watchdog_and_that_is_told(tmp_path: Path) -> None:
    machine = GuestMachine(tmp_path)
    script = f"{built(tmp_path)}\n{ktrial('schedulers', '--only', 'ktrial_hang', '--budget', '7', *DESIGN)}"
    told = "\n".join(machine.boot(FORKY, script, {"wide": WIDE}, limit_s=2700, counts=True))
    assert "(runnable task stall)" in " ".join(told.split()), told
    assert re.search(r"^stay with EEVDF: ", told, re.MULTILINE), told
    assert "status 0" in told


#: What a service would print of work that is faster under another scheduler.
WORK = """#!/bin/sh
grep -q enabled /sys/kernel/sched_ext/state && echo took 2.$(date +%N) || echo took 9.$(date +%N)
"""
OWN = "# mine\nSCX_SCHEDULER=scx_rusty\nexport SCX_FLAGS='-s 3000'\nOTHER=1\n"


def test_the_proposed_one_is_kept_and_undone_byte_for_byte(tmp_path: Path) -> None:
    machine = GuestMachine(tmp_path)
    measured = ("--only", "ktrial_fifo", "--metric", "took:lower=took ([0-9.]+)", "--budget", "7", "--settle", "0s")
    script = "\n".join(
        (
            built(tmp_path),
            "mount -t tmpfs none /etc/default && mount -t tmpfs none /etc/systemd/system",
            "mkdir -p /run/systemd/system && echo '[Service]' > /etc/systemd/system/scx.service",
            "cp /run/job/own /etc/default/scx",
            ktrial(
                "schedulers", *measured, "--no-profile", "--anyway", "--name", "planted", "--", "sh", "/run/job/work"
            ),
            ktrial("keep", "planted", "--yes"),
            "sed 's/^/kept: /' /etc/default/scx /etc/systemd/system/multi-user.target.d/ktrial-scx.conf",
            ktrial("drift"),
            # What scx.service does at boot.
            "( . /etc/default/scx; exec $SCX_SCHEDULER $SCX_FLAGS ) & starter=$!",
            "for n in $(seq 100); do grep -q enabled /sys/kernel/sched_ext/state && break; sleep 0.1; done",
            ktrial("drift"),
            "kill $starter; wait $starter",
            ktrial("keep", "--undo"),
            "cmp /run/job/own /etc/default/scx && echo same bytes",
            "ls /etc/systemd/system",
        )
    )
    said = machine.boot(FORKY, script, {"wide": WIDE, "work": WORK, "own": OWN}, limit_s=2700, counts=True)
    told = "\n".join(said)
    assert re.search(r"^use scx_ktrial_fifo: took ", told, re.MULTILINE), told
    kept = [line.removeprefix("kept: ") for line in said if line.startswith("kept: ")]
    assert "SCX_SCHEDULER=scx_ktrial_fifo" in kept, told
    assert {"# mine", "OTHER=1", "# set aside by ktrial: SCX_SCHEDULER=scx_rusty", "Wants=scx.service"} <= set(kept)
    assert re.search(r"sched_ext:scheduler +scx_ktrial_fifo +disabled +pending", told), told
    assert "1 of 1 kept settings are live." in told
    assert "same bytes" in told
    assert [line for line in said if line.strip()][-1].strip() == "scx.service", told
    assert [line for line in said if line.startswith("status ")] == ["status 0"] * 5, told
