# SPDX-License-Identifier: Apache-2.0
"""What `ktrial keep` writes for boot: GRUB's own grub-mkconfig makes its menu; systemd reads the units."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ktrial.tuning.lasting.model import DRIFT_TIMER, PLACES
from tests.support.tree import FakeRoot

BASE = "/sys/kernel/debug/sched/base_slice_ns"
UNIT = PLACES["systemd-unit"]
#: Answers instead of grub-probe, which needs a disk that GRUB knows.
PROBE = """\
#!/bin/sh
case "$*" in
    *target=device*) echo /dev/sda1 ;;
    *target=fs_uuid*) echo 11111111-2222-3333-4444-555555555555 ;;
    *target=fs*) echo ext2 ;;
    *target=partmap*) echo msdos ;;
    *target=partuuid*) echo 11111111-01 ;;
    *) ;;
esac
"""
#: In a mount namespace, with a /boot, /etc/default, state and home of its own; `keep WORD…` runs ktrial.
SET_UP = """\
set -e; umask 022
unset XDG_CONFIG_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_DATA_HOME KTRIAL_STORE; export HOME="$1/home"
mkdir "$1/boot" "$1/boot/grub" "$1/default" "$1/default/grub.d" "$1/grub.d" "$1/state" "$1/home"
: > "$1/boot/vmlinuz-6.1.0-own"; : > "$1/boot/initrd.img-6.1.0-own"
printf '%s\\n' 'GRUB_TIMEOUT=5' 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"' 'GRUB_CMDLINE_LINUX=""' > "$1/default/grub"
cp /etc/grub.d/00_header /etc/grub.d/10_linux "$1/grub.d/"; chmod 755 "$1/probe"; chmod 700 "$1/state"
mount --bind "$1/boot" /boot; mount --bind "$1/default" /etc/default; mount --bind "$1/grub.d" /etc/grub.d
mount --bind "$1/probe" /usr/sbin/grub-probe
mkdir -p /var/lib/ktrial; mount --bind "$1/state" /var/lib/ktrial
mount -t tmpfs none /run; mkdir -p /run/systemd/system
ktrial() { "$python" -m ktrial "$@" 2>&1 || echo "status $?"; }
words() { sed -n 's/^\\tlinux.*vmlinuz-6.1.0-own //p' /boot/grub/grub.cfg | head -1; }
python=$2
grub-mkconfig -o /boot/grub/grub.cfg 2> /dev/null
cp -a /boot/grub/grub.cfg "$1/before"
"""
#: Runs `ktrial boot keep` as after a healthy boot with these words removed and added, and of this kernel.
BOOT_KEEP = """\
import sys
from ktrial.cli.shared import boots
from ktrial.cli.shared.keeping import KeptBoot
from ktrial.tuning.boots.boot_status import BootStatus
kernel, words, *options = sys.argv[1:]
boots.read_status = lambda session: BootStatus(loader="grub")
boots.words_to_keep = lambda session, now: (tuple(words.split()), KeptBoot(kernel or None))
boots.end_kept = lambda app, session, now: 0
from ktrial.cli.main import main
sys.exit(main(["boot", "keep", "--yes", *options], sys.stdout, sys.stderr))
"""
#: Another kernel is installed, and the machine boots the first one with these words.
TWO_KERNELS = """
: > /boot/vmlinuz-6.0.0-old; : > /boot/initrd.img-6.0.0-old
printf '%s\\n' 'GRUB_DEFAULT=0' 'GRUB_CMDLINE_LINUX_DEFAULT="quiet splash preempt=none"' \\
    'GRUB_CMDLINE_LINUX="lsm=lockdown,yama a=\\"b  c\\""' > /etc/default/grub
echo 'BOOT_IMAGE=/boot/vmlinuz-6.1.0-own root=/dev/sda1 ro quiet' > "$1/line"
mount --bind "$1/line" /proc/cmdline
grub-mkconfig -o /boot/grub/grub.cfg 2> /dev/null
cp -a /boot/grub/grub.cfg "$1/before"
boot_keep() { "$python" "$1/boot_keep.py" "$2" "$3" 2>&1 || echo "status $?"; }
"""
#: A grub-mkconfig that reads no drop-ins.
OTHER_GRUB = (
    """printf '#!/bin/sh\\n' > "$1/other"; chmod 755 "$1/other"; mount --bind "$1/other" /usr/sbin/grub-mkconfig"""
)


def in_grub(folder: Path, script: str) -> str:
    """What the script prints on a machine of its own that boots with GRUB; $1 is the folder."""
    (folder / "probe").write_text(PROBE)
    (folder / "boot_keep.py").write_text(BOOT_KEEP)
    argv = ("unshare", "-m", "sh", "-c", SET_UP + script, "sh", folder, sys.executable)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.root
def test_grub_boots_with_the_kept_words_and_its_menu_is_restored_byte_for_byte(tmp_path: Path) -> None:
    said = in_grub(
        tmp_path,
        """
        ktrial keep boot:transparent_hugepage=always boot:threadirqs=on --yes
        echo "1: $(words)"
        ktrial drift
        ktrial keep boot:mitigations=off --yes --yes-dangerous
        echo "2: $(words)"
        ktrial keep boot:mitigations=off --yes --yes-security mitigations
        echo "3: $(words)"
        ktrial keep --undo boot:threadirqs --yes
        echo "4: $(words)"
        ktrial keep --undo --yes
        cmp "$1/before" /boot/grub/grub.cfg && echo same; ls /etc/default/grub.d
        [ "$(stat -c %a:%u "$1/before")" = "$(stat -c %a:%u /boot/grub/grub.cfg)" ] && echo same rights
        """,
    )
    line = "root=/dev/sda1 ro "
    assert f"1: {line} transparent_hugepage=always threadirqs quiet" in said
    assert "0 of 2 kept settings are live." in said
    assert "cannot use mitigations=off, which weakens the protection" in said
    assert "next: add --yes-security mitigations if you accept the risk\nstatus 4" in said
    assert f"2: {line} transparent_hugepage=always threadirqs quiet" in said
    assert f"3: {line} transparent_hugepage=always threadirqs mitigations=off quiet" in said
    assert f"4: {line} transparent_hugepage=always mitigations=off quiet" in said
    assert said.endswith("same\nsame rights\n")


@pytest.mark.root
def test_words_are_removed_and_the_tried_kernel_is_the_default_until_an_undo(tmp_path: Path) -> None:
    said = in_grub(
        tmp_path,
        f"""{TWO_KERNELS}
        boot_keep "$1" /boot/vmlinuz-6.0.0-old "boot:-quiet boot:-preempt=none boot:preempt=full"
        echo "1: $(words)"
        grep 'set default="g' /boot/grub/grub.cfg
        grub-script-check /boot/grub/grub.cfg && echo valid
        ktrial drift
        ktrial status
        echo 'BOOT_IMAGE=/boot/vmlinuz-6.0.0-old root=/dev/sda1 ro preempt=full splash' > "$1/line"
        ktrial status --check
        ktrial keep --undo boot:kernel --yes > /dev/null
        grep -c 'set default="0"' /boot/grub/grub.cfg
        ktrial keep --undo boot:-quiet --yes > /dev/null
        echo "2: $(words)"
        ktrial keep boot:threadirqs=on --yes > /dev/null
        ktrial keep --undo boot:preempt --yes > /dev/null
        echo "3: $(words)"
        ktrial keep --undo --yes
        cmp "$1/before" /boot/grub/grub.cfg && echo same; ls /etc/default/grub.d
        """,
    )
    both = '1: root=/dev/sda1 ro lsm=lockdown,yama a="b  c" preempt=full splash'
    assert " ".join(both.split()) in " ".join(said.split())
    assert 'a="b  c"' in said
    uuid = "11111111-2222-3333-4444-555555555555"
    assert f'set default="gnulinux-advanced-{uuid}>gnulinux-6.0.0-old-advanced-{uuid}"\n' in said
    assert "\nvalid\n" in said
    assert "boot:kernel: also set by /etc/default/grub:1 (= 0), at boot" in said
    # preempt=none is not on the command line before either.
    for row in (r"boot:-quiet +removed +quiet", r"boot:kernel +/boot/vmlinuz-6.0.0- +/boot/vmlinuz-6.1.0-"):
        assert re.search(rf"^{row} +pending", said, re.MULTILINE), said
    assert "1 of 4 kept settings are live." in said
    assert re.search(r"^1 +keep boot:-quiet boot:-preempt=none +kept", said, re.MULTILINE), said
    assert re.search(r"^ +boot:kernel=/boot/vmlinuz-6.0.0-old", said, re.MULTILINE), said
    assert "compliant: 4 of 4 settings are kept or applied, and live\n" in said
    assert re.search(r"^1\n2: .*preempt=full quiet splash$", said, re.MULTILINE), said
    assert re.search(r"^3: .* threadirqs quiet splash preempt=none$", said, re.MULTILINE), said
    assert said.endswith("same\n"), said


@pytest.mark.root
def test_drift_tells_after_a_boot_what_did_not_take_effect(tmp_path: Path) -> None:
    said = in_grub(
        tmp_path,
        f"""{TWO_KERNELS}
        boot_keep "$1" /boot/vmlinuz-6.0.0-old "boot:-quiet" > /dev/null
        echo 99999999-2222-3333-4444-555555555555 > "$1/boot-id"
        mount --bind "$1/boot-id" /proc/sys/kernel/random/boot_id
        ktrial drift
        ktrial status --check
        rm /boot/vmlinuz-6.0.0-old; grub-mkconfig -o /boot/grub/grub.cfg 2> /dev/null
        ktrial keep boot:threadirqs=on --yes
        ktrial keep --undo boot:kernel --yes > /dev/null
        ktrial keep boot:threadirqs=on --yes > /dev/null
        echo "1: $(words)"
        ktrial keep --undo --yes > /dev/null
        ls /etc/default/grub.d; grep -c vmlinuz-6.0.0-old /boot/grub/grub.cfg || true
        """,
    )
    flat = " ".join(said.split())
    assert re.search(r"^boot:-quiet +removed +quiet +differs: still", said, re.MULTILINE), said
    assert re.search(r"^boot:kernel +\S+ +\S+ +differs:", said, re.MULTILINE), said
    assert "0 of 2 kept settings are live. status 3" in flat
    assert "differs: 0 of 2 settings are kept or applied, and live status 3" in flat
    # Nothing is written while the kept kernel is gone, and the error says what to do.
    assert "/boot/grub/grub.cfg has no entry gnulinux-advanced" in flat
    assert "`ktrial keep --undo boot:kernel`" in flat
    assert re.search(r"^1: .* threadirqs splash preempt=none\n0$", said, re.MULTILINE), said


@pytest.mark.root
def test_a_word_that_protects_the_machine_is_removed_only_by_its_name(tmp_path: Path) -> None:
    said = in_grub(
        tmp_path,
        f"""{TWO_KERNELS}
        ktrial keep boot:-lsm --yes
        echo "1: $(words)"
        ktrial keep boot:-lsm --yes --yes-security lsm
        echo "2: $(words)"
        ktrial keep boot:-root --yes
        ktrial keep boot:-quite --yes
        echo 'GRUB_CMDLINE_LINUX="init=/sbin/init $GRUB_CMDLINE_LINUX"' > /etc/default/grub.d/a.cfg
        ktrial keep boot:-init --yes
        echo 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT splash"' > /etc/default/grub.d/zz.cfg
        ktrial keep boot:-splash --yes
        rm /etc/default/grub.d/*z.cfg /etc/default/grub.d/a.cfg
        ktrial keep --undo --yes > /dev/null
        cmp "$1/before" /boot/grub/grub.cfg && echo same; ls /etc/default/grub.d
        """,
    )
    plain = 'a="b  c" quiet splash preempt=none\n'
    assert "cannot use -lsm, which weakens the protection" in said
    assert f"1: root=/dev/sda1 ro lsm=lockdown,yama {plain}" in said
    assert f"2: root=/dev/sda1 ro {plain}" in said
    assert "cannot remove root from GRUB's configuration: no line" in said
    assert "cannot remove quite from GRUB's configuration: no line" in said
    assert "the kernel argument init is one that ktrial never removes" in said
    assert "cannot keep boot:-splash: /etc/default/grub.d/zz.cfg:1 overrides it" in said
    assert said.endswith("same\n"), said


@pytest.mark.root
@pytest.mark.parametrize(
    "change, kernel, told",
    [
        ("sed -i s/=0/=saved/ /etc/default/grub", "6.0.0-old", "/etc/default/grub:1 sets GRUB_DEFAULT=saved"),
        ("echo GRUB_DEFAULT=2 > /etc/default/grub.d/zz.cfg", "6.0.0-old", "grub.d/zz.cfg:1 (= 2) overrides it"),
        ("", "6.2", "GRUB's menu has no separate entry for this kernel"),
        ("rm /boot/vmlinuz-6.0.0-old", "6.0.0-old", "cannot find /boot/vmlinuz-6.0.0-old"),
        ("rm /boot/grub/grub.cfg; : > /boot/limine.conf", "6.0.0-old", "cannot find grub here"),
    ],
)
def test_a_kernel_that_cannot_be_the_default_changes_nothing(
    change: str, kernel: str, told: str, tmp_path: Path
) -> None:
    said = in_grub(
        tmp_path,
        f"""{TWO_KERNELS}
        {change}
        ls /etc/default/grub.d > "$1/drop-ins"
        boot_keep "$1" /boot/vmlinuz-{kernel} ""
        ls /etc/default/grub.d | cmp - "$1/drop-ins" && echo same
        """,
    )
    assert told in " ".join(said.split()), said
    assert re.search(r"^status [14]$", said, re.MULTILINE), said
    assert said.endswith("same\n"), said


@pytest.mark.root
def test_a_kernel_that_was_installed_since_stays_in_the_menu(tmp_path: Path) -> None:
    said = in_grub(
        tmp_path,
        """
        ktrial keep boot:threadirqs=on --yes > /dev/null
        : > /boot/vmlinuz-6.9.0-new; : > /boot/initrd.img-6.9.0-new
        grub-mkconfig -o /boot/grub/grub.cfg 2> /dev/null
        ktrial keep --undo --yes
        grep -c vmlinuz-6.9.0-new /boot/grub/grub.cfg; grep -c threadirqs /boot/grub/grub.cfg || true
        """,
    )
    assert "1 of 1 restored" in said
    new, words = map(int, said.split()[-2:])
    assert (new > 0, words) == (True, 0)


@pytest.mark.root
def test_an_agent_that_dies_while_grub_is_made_is_recovered(tmp_path: Path) -> None:
    said = in_grub(
        tmp_path,
        """
        sed -i "2i [ ! -e $1/slow ] || { : > $1/runs; sleep 2; }" /etc/grub.d/10_linux
        : > "$1/slow"
        ktrial keep boot:threadirqs=on --yes > "$1/said" &
        while [ ! -e "$1/runs" ]; do sleep 0.05; done
        for pid in $(pgrep -x ktrial-agent); do
            [ "$(readlink "/proc/$pid/ns/mnt")" != "$(readlink /proc/$$/ns/mnt)" ] || kill -9 "$pid"
        done
        wait; rm "$1/slow"
        ls /etc/default/grub.d
        ktrial recover
        sleep 3
        cmp "$1/before" /boot/grub/grub.cfg && echo same; ls -A /etc/default/grub.d
        """,
    )
    assert said.startswith("ktrial.cfg\n")
    assert said.endswith("same\n"), said


@pytest.mark.root
@pytest.mark.parametrize(
    "fault, told",
    [
        ("printf '#!/bin/sh\\necho broken >&2; exit 1\\n' > /etc/grub.d/10_linux", "grub-mkconfig"),
        ("mount -o remount,ro,bind /boot", "read-only"),
        ('mount -t tmpfs -o size=16k none /boot; mkdir /boot/grub; cp -a "$1/before" /boot/grub/grub.cfg', "space"),
        ("mount -o remount,ro,bind /etc/default", "read-only"),
        (OTHER_GRUB, "does not read /etc/default/grub.d"),
    ],
)
def test_what_cannot_be_made_changes_nothing(fault: str, told: str, tmp_path: Path) -> None:
    said = in_grub(
        tmp_path,
        f"""
        {fault}
        ktrial keep boot:threadirqs=on --yes
        cmp "$1/before" /boot/grub/grub.cfg && echo same; ls -A /etc/default/grub.d
        """,
    )
    assert told in said.lower()
    assert re.search(r"^status [14]$", said, re.MULTILINE), said
    assert said.endswith("same\n")


@pytest.fixture
def machine(root: FakeRoot) -> FakeRoot:
    """A machine on which systemd runs, with a knob of debugfs."""
    root.write(BASE, "2800000\n")
    root.write("/etc/systemd/system/README", "")
    return root


def test_a_value_of_debugfs_is_kept_by_a_unit_that_a_target_starts(machine: FakeRoot) -> None:
    done = machine.run("keep", "sched:base_slice_ns=3000000", "vm.swappiness=10", "--yes", "--yes-dangerous")
    assert done.status == 0, done.err
    assert machine.read(PLACES["systemd-wants"]).endswith("[Unit]\nWants=ktrial-keep.service\n")
    assert machine.run("drift").out == "2 of 2 kept settings are live.\n"
    again = machine.run("keep", "sched:base_slice_ns=4000000", "--yes", "--yes-dangerous", "--json").json
    assert [file["path"] for file in again["files"]] == [UNIT]
    assert [file["after"] for file in again["files"]] == [machine.read(UNIT)]
    assert machine.run("keep", "--undo", "sched:base_slice_ns").status == 0
    assert not any((machine.folder / path.lstrip("/")).exists() for path in (UNIT, PLACES["systemd-wants"]))
    assert machine.run("keep", "--undo").status == 0
    assert sorted(path.name for path in (machine.folder / "etc/systemd/system").iterdir()) == ["README"]


def test_systemd_runs_the_unit_with_the_path_and_the_value(machine: FakeRoot, tmp_path: Path) -> None:
    machine.run("keep", "sched:base_slice_ns=3000000", "--yes", "--yes-dangerous")
    file = machine.folder / UNIT.lstrip("/")
    done = subprocess.run(("systemd-analyze", "verify", file), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # systemd removes one level of its own: `\\` is `\`, `%%` is `%`, and `$$` is `$`.
    (line,) = re.findall(r"^ExecStart=-/bin/sh -c '(.*)' ktrial \"(.*)\" \"(.*)\"$", file.read_text(), re.MULTILINE)
    program = line[0].replace("\\\\", "\\").replace("%%", "%").replace("$$", "$")
    target = tmp_path / "file"
    subprocess.run(("/bin/sh", "-c", program, "ktrial", target, line[2]), check=True, timeout=60)
    assert (line[1], target.read_text()) == (BASE, "3000000\n")


@pytest.mark.root
def test_the_timer_of_drift_is_installed_and_taken_away(machine: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrial.cli.shared.drift_timer.program", lambda: "/usr/bin/ktrial")
    machine.write("/usr/bin/ktrial", "#!/usr/bin/true\n")
    machine.write("/usr/bin/true", "")
    for name in ("ktrial", "true"):
        (machine.folder / "usr/bin" / name).chmod(0o755)
    done = machine.run("keep", "--watch-drift", "--yes")
    assert done.status == 0, done.err
    assert "ExecStart=/usr/bin/ktrial drift\n" in machine.read(DRIFT_TIMER.replace(".timer", ".service"))
    with tempfile.TemporaryDirectory(prefix="ktrial-timer-") as folder:
        timer = Path(folder) / "ktrial-drift.timer"
        timer.write_text(machine.read(DRIFT_TIMER))
        (Path(folder) / "ktrial-drift.service").write_text("[Service]\nType=oneshot\nExecStart=/bin/true\n")
        found = subprocess.run(
            ("systemd-analyze", "verify", timer), capture_output=True, text=True, timeout=60, check=False
        )
        assert (found.returncode, found.stderr) == (0, "")
    assert "installed already" in machine.run("keep", "--watch-drift", "--yes").err
    assert "kept" in machine.run("status").out
    assert machine.run("keep", "--undo").out == "Nothing is kept.\n"
    assert machine.run("keep", "--watch-drift", "--undo").status == 0
    assert sorted(path.name for path in (machine.folder / "etc/systemd/system").iterdir()) == ["README"]
    (machine.folder / "usr/bin/ktrial").chmod(0o775)
    done = machine.run("keep", "--watch-drift", "--yes")
    assert done.status == 4
    assert "can be changed by someone other than root" in done.err
