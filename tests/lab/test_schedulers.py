# SPDX-License-Identifier: Apache-2.0
"""`ktrial schedulers` with real sched_ext schedulers, in a guest of a kernel that has sched_ext."""

from __future__ import annotations

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
    """The schedulers, and the lines of a script that installs them."""
    loader = folder / "loader"
    run(["cc", "-O2", "-Wall", "-Werror", "-o", str(loader), str(SOURCES / "loader.c"), "-lbpf"])
    lines = [f"mount -t tmpfs none {FOLDER}", f"cp /run/job/wide {FOLDER}/scx_ktrial_wide"]
    for name, kind in KINDS.items():
        out = folder / f"{name}.bpf.o"
        words = [f"-DKIND={kind}", f'-DNAME="ktrial_{name}"', "-I/usr/include/x86_64-linux-gnu"]
        command = ["clang", "-target", "bpf", "-O2", "-g", "-Wall", "-Werror", *words]
        run([*command, "-c", str(SOURCES / "scheduler.bpf.c"), "-o", str(out)])
        lines.append(f"printf '#!/bin/sh\\nexec {loader} {out}\\n' > {FOLDER}/scx_ktrial_{name}")
    return "\n".join([*lines, f"chmod 755 {FOLDER}/scx_*"])


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
    assert verdicts["ktrial_slow"] == "worse", told
    assert verdicts["placebo"] not in {"better", "worse"}, told
    assert verdicts["ktrial_eject"] != "better", told
    joined = " ".join(told.split())
    assert re.search(r"ktrial_eject: \d+ failed runs? of \d+; the last: .*the kernel says: .*as planned", joined), told
    assert re.search(r"left out: ktrial_wide: .* no second LLC, this scheduler needs two", joined), told
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
