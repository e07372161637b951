# SPDX-License-Identifier: Apache-2.0
"""Hostile values through each target's own parser: it reads exactly the value, or export has refused it."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ktrial.tuning.exporters import export, targets
from ktrial.tuning.exports.model import LastingSetting
from tests.support.exports import NASTY, SETTINGS, lasting, own_knob, profile, values

TARGETS = targets()
GENERATOR = Path("/usr/lib/systemd/system-generators/zram-generator")
SHELLS = (("dash",), ("busybox", "ash"), ("bash", "--posix"))
#: Many values at once, so that few programs start.
batches = st.lists(values, min_size=10, max_size=40, unique=True).map(
    lambda found: list(dict.fromkeys([*NASTY, *found]))
)
few = settings(max_examples=3, deadline=None, phases=(Phase.explicit, Phase.generate))


def ran(*argv: str | Path, **environment: str) -> str:
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def settings_of(name: str, place: str, texts: Sequence[str], kind: str = "sysfs") -> dict[str, LastingSetting]:
    """Label -> a setting of each value that the target doesn't refuse, each for an instance of its own."""
    knob = own_knob("own", place, kind)
    made = {
        f"d{number}.x": LastingSetting(knob=knob, text=text, place=place, pattern=f"d{number}.x")
        for number, text in enumerate(texts)
    }
    return {label: one for label, one in made.items() if TARGETS[name].objection(one) is None}


def written(name: str, chosen: Sequence[LastingSetting], folder: Path) -> list[Path]:
    """The files of a target, below a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    found = []
    for path, text in export(profile(chosen), [TARGETS[name]], TARGETS.values())[TARGETS[name]].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
        found.append(folder / path)
    return found


#: A namespace in which folders of the kernel are plain files: $1 is what /sys holds, $2 what /proc/sys holds.
NAMESPACE = """
set -e
mount -t tmpfs none /proc/sys
mount -t tmpfs none /sys
cp -r "$1/." /sys
cp -r "$2/." /proc/sys
shift 2
"$@" || echo "status $?" >&2
"""


def plain_files(folder: Path, paths: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def in_namespace(folder: Path, sys: Mapping[str, str], proc: Mapping[str, str], script: str, *argv: str | Path) -> str:
    """What a shell script prints that runs there."""
    shutil.rmtree(folder, ignore_errors=True)
    roots = (plain_files(folder / "sys", sys), plain_files(folder / "proc", proc))
    return ran("unshare", "-m", "sh", "-c", NAMESPACE, "sh", *roots, "sh", "-c", script, "sh", *argv)


PRINT = '; for file in "$root"/*/"$last"; do printf "%s\\0%s\\0" "$file" "$(cat "$file")"; done'


def contents(said: str) -> dict[str, str]:
    words = said.split("\0")
    return dict(zip(words[::2], words[1::2], strict=False))


@pytest.mark.root
@given(texts=batches)
@few
def test_both_sysctls_write_the_values(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("sysctl")
    chosen = settings_of("sysctl.d", "/proc/sys/net/ipv4/conf/{interface}/tag", texts, "sysctl")
    assert len(chosen) > 20
    (file,) = written("sysctl.d", list(chosen.values()), tmp_path / "out")
    proc = {f"net/ipv4/conf/{label}/tag": "" for label in chosen}
    for program in ("/usr/lib/systemd/systemd-sysctl", "sysctl -q -p"):
        script = f'{program} "$1" >&2; root=/proc/sys/net/ipv4/conf; last=tag{PRINT}'
        found = contents(in_namespace(tmp_path / "root", {}, proc, script, file))
        for label, one in chosen.items():
            assert found[f"/proc/sys/net/ipv4/conf/{label}/tag"] == one.text, (program, one.text)


@given(texts=batches)
@few
def test_systemd_tmpfiles_writes_the_values(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("tmpfiles")
    chosen = settings_of("tmpfiles.d", "/sys/block/{block}/queue/scheduler", texts)
    assert len(chosen) > 20
    (file,) = written("tmpfiles.d", list(chosen.values()), tmp_path / "out")
    root = plain_files(tmp_path / "root", {f"sys/block/{label}/queue/scheduler": "" for label in chosen})
    ran("systemd-tmpfiles", f"--root={root}", "--create", "--boot", file)
    for label, one in chosen.items():
        assert (root / f"sys/block/{label}/queue/scheduler").read_text() == one.text


_UDEV = """
mount -t sysfs none /sys && mount -t tmpfs none /run
for folder in /etc/udev /usr/lib/udev/rules.d /usr/local/lib/udev/rules.d; do
    [ ! -d "$folder" ] || mount -t tmpfs none "$folder" || exit
done
mkdir -p /etc/udev/rules.d
cp "$1" /etc/udev/rules.d/90-ktrial.rules
! udevadm verify --help > /dev/null 2>&1 || udevadm verify /etc/udev/rules.d/90-ktrial.rules >&2 || exit
udevadm test --action=add /sys/class/net/lo 2>&1
"""


@pytest.mark.root
@given(texts=batches)
@few
def test_udev_reads_the_values(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("udev")
    knob = own_knob("own", "/sys/class/net/{interface}/ifalias")
    made = (LastingSetting(knob=knob, text=text, place=knob.places[0], pattern="lo") for text in texts)
    chosen = [one for one in made if TARGETS["udev"].objection(one) is None]
    assert len(chosen) > 15
    (file,) = written("udev", chosen, tmp_path / "out")
    said = ran("unshare", "-m", "-n", "sh", "-c", _UDEV, "sh", file, LC_ALL="C.UTF-8")
    lines = [line for line in said.splitlines() if "90-ktrial.rules:" in line]
    assert len(lines) == len(chosen)
    for line, one in zip(lines, chosen, strict=True):
        assert line.endswith((f"writing '{one.text}'", f'to "{one.text}".', f'"{one.text}"')), line


@given(texts=batches)
@few
def test_modprobe_reads_the_parameters(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("modprobe")
    knobs = [own_knob(f"own{number}", f"/sys/module/m{number}/parameters/p", "module") for number in range(len(texts))]
    made = (LastingSetting(knob=knob, text=text) for knob, text in zip(knobs, texts, strict=True))
    chosen = [one for one in made if TARGETS["modprobe.d"].objection(one) is None]
    assert len(chosen) > 15
    (file,) = written("modprobe.d", chosen, tmp_path / "out")
    said = ran("modprobe", "-C", file.parent, "--showconfig").splitlines()
    for one in chosen:
        text = f'"{one.text}"' if re.search(r"\s", one.text) else one.text
        assert f"options {one.module[0]} p={text}" in said
    assert not [line for line in said if line.startswith(("install ", "remove "))]


def words_of(line: str) -> list[str]:
    """The words of a command line as systemd shows it, with the variables and specifiers that it will expand later."""
    shown = re.findall(r'"(?:\\.|[^"\\])*"|\S+', line)
    plain = [re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word for word in shown]
    assert not [word for word in plain if "$" in word.replace("$$", "")], "systemd would expand a variable"
    return [word.replace("$$", "$") for word in plain]


@pytest.mark.root
@given(texts=batches)
@few
def test_systemd_accepts_the_unit_and_reads_the_values(
    texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("unit")
    chosen = settings_of("systemd-unit", "/sys/block/{block}/queue/scheduler", texts)
    assert len(chosen) > 20
    (file,) = written("systemd-unit", list(chosen.values()), tmp_path / "out")
    assert ran("systemd-analyze", "verify", file) == ""
    with tempfile.TemporaryDirectory(prefix="ktrial-unit-") as folder:  # systemd --test refuses root
        shutil.copy(file, folder)
        shutil.chown(folder, "nobody")
        own = {"SYSTEMD_UNIT_PATH": f"{folder}:", "XDG_RUNTIME_DIR": folder, "LC_ALL": "C.UTF-8"}
        systemd = ("/lib/systemd/systemd", "--test", "--system", f"--unit={file.name}")
        said = ran("setpriv", "--reuid=nobody", "--clear-groups", *systemd, **own)
    (line,) = re.findall(r"Command Line: (/bin/sh -c .* ktrial /sys/.*)", said)
    words = words_of(line)
    assert words[:2] == ["/bin/sh", "-c"]
    assert words[4::2] == [f"/sys/block/{label}/queue/scheduler" for label in chosen]
    assert words[5::2] == [one.text for one in chosen.values()]
    sys = {f"block/{label}/queue/scheduler": "before\n" for label in chosen}
    missing = ["/sys/block/none/queue/x/y", "1", "/sys/block/none*/queue/scheduler", "1"]
    script = f'root=/sys/block; last=queue/scheduler; "$@" 2> /dev/null; printf "status\\0%s\\0" "$?"{PRINT}'
    found = contents(in_namespace(tmp_path / "root", sys, {}, script, *words[:4], *missing, *words[4:]))
    assert found.pop("status") == "1", "a file that is missing is a failure"
    assert found == {f"/sys/block/{label}/queue/scheduler": one.text for label, one in chosen.items()}


@pytest.mark.root
@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_the_shell_script_applies_and_restores(shell: tuple[str, ...], tmp_path: Path) -> None:
    chosen = settings_of("shell", "/sys/block/{block}/queue/scheduler", NASTY)
    (file,) = written("shell", [*chosen.values(), lasting("feature:NEXT_BUDDY=off")], tmp_path / "out")
    ran(*shell, "-n", file)
    features = "kernel/debug/sched/features"
    sys = {f"block/{label}/queue/scheduler": "none [before] $(id)\n" for label in chosen}
    sys[features] = "A NEXT_BUDDY B\n"
    script = f"""
    KTRIAL_SAVED="$1"; export KTRIAL_SAVED; shift; root=/sys/block; last=queue/scheduler
    "$@" apply >&2 || exit
    cat /sys/{features} > /sys/now
    "$@" apply >&2 || exit{PRINT}
    printf "now\\0%s\\0" "$(cat /sys/now)"
    "$@" revert >&2 || exit
    for file in "$root"/*/"$last"; do printf "old %s\\0%s\\0" "$file" "$(cat "$file")"; done
    printf "then\\0%s\\0" "$(cat /sys/{features})"
    [ ! -e "$KTRIAL_SAVED" ] || echo left over
    """
    found = contents(in_namespace(tmp_path / "root", sys, {}, script, tmp_path / "saved", *shell, file))
    for label, one in chosen.items():
        place = f"/sys/block/{label}/queue/scheduler"
        assert found[place] == one.text
        assert found[f"old {place}"] == "before"
    assert (found["now"], found["then"]) == ("NO_NEXT_BUDDY", "NEXT_BUDDY")


_NIX_LIB = """
{ mkOverride = p: x: x; mkForce = x: x; mkAfter = x: x; concatStringsSep = builtins.concatStringsSep;
  kernel = { yes = "y"; no = "n"; freeform = x: x; }; }
"""


@given(texts=batches)
@few
def test_nix_evaluates_to_the_values(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("nix")
    chosen = settings_of("nixos", "/proc/sys/net/ipv4/conf/{interface}/tag", texts, "sysctl")
    (file,) = written("nixos", list(chosen.values()), tmp_path / "out")
    told = evaluated(file, tmp_path)
    assert told["boot"]["kernel"]["sysctl"] == {f"net/ipv4/conf/{label}/tag": one.text for label, one in chosen.items()}


def evaluated(file: Path, folder: Path) -> Any:
    nix = {f"NIX_{name}_DIR": str(folder / name) for name in ("STORE", "DATA", "LOG", "STATE", "CONF")}
    words = ("--eval", "--strict", "--json", "-E", f"import {file} {{ lib = {_NIX_LIB}; }}")
    done = subprocess.run(
        ["nix-instantiate", *words], capture_output=True, text=True, env={**os.environ, **nix}, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nix_evaluates_the_sample_to_what_the_native_files_hold(tmp_path: Path) -> None:
    chosen = [one for one in SETTINGS if TARGETS["nixos"].objection(one) is None]
    (file,) = written("nixos", chosen, tmp_path / "out")
    told = evaluated(file, tmp_path)
    rules = told["services"]["udev"]["extraRules"].splitlines()
    assert 'KERNEL=="nvme*"' in rules[0]
    assert 'ATTR{queue/scheduler}="none"' in rules[0]
    assert told["boot"]["kernelParams"][0] == "preempt=full"
    assert told["zramSwap"]["memoryMax"] == 4 << 30


def test_grub_reads_the_arguments(tmp_path: Path) -> None:
    chosen = [one for one in SETTINGS if TARGETS["grub"].objection(one) is None]
    (file,) = written("grub", chosen, tmp_path / "out")
    script = 'GRUB_CMDLINE_LINUX=first; . "$1"; echo "linux /vmlinuz root=/dev/x $GRUB_CMDLINE_LINUX"'
    line = ran("sh", "-c", script, "sh", file)
    assert line.split()[3:6] == ["first", "zswap.max_pool_percent=20", "nvme_core.io_timeout=30"]
    (tmp_path / "grub.cfg").write_text(f"menuentry x {{\n{line}}}\n")
    ran("grub-script-check", tmp_path / "grub.cfg")


def test_the_generator_of_zram_makes_the_device(tmp_path: Path) -> None:
    chosen = [one for one in SETTINGS if one.form == "zram"]
    written("zram-generator", chosen, tmp_path / "root")
    plain_files(tmp_path / "root", {"proc/meminfo": "MemTotal:       16384000 kB\n", "proc/cmdline": "\n"})
    units = tmp_path / "units"
    units.mkdir()
    ran(GENERATOR, units, units, units, ZRAM_GENERATOR_ROOT=str(tmp_path / "root"))
    assert sorted(path.name for path in units.glob("*.swap")) == ["dev-zram0.swap"]


SCRIPTS = ("grubby", "rpm-ostree", "bootc-loader-entries", "kernel-install", "systemd-boot")
#: A program that writes down its arguments, one a line.
_STUB = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@" >> "$CALLS"\n[ "$1" != -x ] || echo "$BOOT"\n'


def with_stubs(folder: Path, *names: str) -> dict[str, str]:
    (folder / "bin").mkdir(exist_ok=True)
    for name in names:
        (folder / "bin" / name).write_text(_STUB)
        (folder / "bin" / name).chmod(0o755)
    (folder / "calls").write_text("")
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(folder / "calls"), "BOOT": str(folder)}


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_for_boot_loaders_add_and_remove(name: str, shell: tuple[str, ...], tmp_path: Path) -> None:
    chosen = [lasting(word) for word in ("boot:preempt=full", "boot:nowatchdog=on")]
    (file,) = written(name, chosen, tmp_path / "out")
    ran(*shell, "-n", file)
    own = with_stubs(tmp_path, "grubby", "rpm-ostree", "bootc", "kernel-install", "bootctl")
    kept = plain_files(
        tmp_path, {"loader/entries/a.conf": "linux /vmlinuz\noptions root=/dev/x ro\n", "line": "root=/dev/x ro\n"}
    )
    before = {path: (kept / path).read_text() for path in ("loader/entries/a.conf", "line")}
    own["KTRIAL_CMDLINE"] = str(kept / "line")
    for _ in range(2):
        ran(*shell, file, "add", **own)
    if name == "kernel-install":
        assert (kept / "line").read_text() == "root=/dev/x ro preempt=full nowatchdog\n"
    elif name == "systemd-boot":
        assert (kept / "loader/entries/a.conf").read_text() == before[
            "loader/entries/a.conf"
        ] + "options preempt=full nowatchdog\n"
    else:
        assert {"preempt=full nowatchdog", "--args=preempt=full nowatchdog", "--append-if-missing=preempt=full"} & set(
            (tmp_path / "calls").read_text().splitlines()
        )
    ran(*shell, file, "remove", **own)
    assert {path: (kept / path).read_text() for path in before} == before
    assert subprocess.run([*shell, file], capture_output=True, check=False).returncode == 2


def test_files_of_further_targets_are_what_their_formats_say(tmp_path: Path) -> None:
    boot = [lasting(word) for word in ("boot:preempt=full", "boot:nowatchdog=on")]
    (toml,) = written("bootc-kargs", boot, tmp_path / "bootc")
    assert tomllib.loads(toml.read_text()) == {"kargs": ["preempt=full", "nowatchdog"]}
    (addon,) = written("uki-addon", boot, tmp_path / "uki")
    ukify = configparser.RawConfigParser()
    ukify.read_string(addon.read_text())
    assert ukify["UKI"]["Cmdline"] == "preempt=full nowatchdog"
    (limine,) = written("limine", boot, tmp_path / "limine")
    script = 'declare -A KERNEL_CMDLINE=([default]=first); . "$1"; printf %s "${KERNEL_CMDLINE[default]}"'
    assert ran("bash", "-c", script, "bash", limine) == "first preempt=full nowatchdog"
    build = [lasting("build:march=znver4"), lasting("build:KCFLAGS=-DX='a b' -g")]
    (flags,) = written("build-flags", build, tmp_path / "build")
    assert ran("sh", "-c", '. "$1"; printf %s "$KCFLAGS"', "sh", flags) == "-march=znver4 -DX='a b' -g"


@pytest.mark.root
def test_ansible_installs_the_files_and_changes_nothing_twice(tmp_path: Path) -> None:
    chosen = [one for one in SETTINGS if TARGETS["ansible"].objection(one) is None]
    paths = written("ansible", chosen, tmp_path / "roles")
    (tmp_path / "play.yml").write_text("- hosts: all\n  gather_facts: false\n  roles: [ktrial_sample]\n")
    own = with_stubs(tmp_path, "sysctl", "udevadm", "systemd-tmpfiles", "systemctl")
    own |= {"ANSIBLE_LOCAL_TEMP": str(tmp_path / "t"), "ANSIBLE_REMOTE_TEMP": str(tmp_path / "r"), "LC_ALL": "C.UTF-8"}
    play = ("ansible-playbook", "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml"))
    ran(*play, "--syntax-check", **own)
    folders = "sysctl.d tmpfiles.d udev/rules.d modprobe.d systemd/system systemd/zram-generator.conf.d"
    script = f"""
    mkdir -p "$1" && mount -t tmpfs none "$1" && mkdir "$1/up" "$1/work" || exit
    mount -t overlay -o "lowerdir=/etc,upperdir=$1/up,workdir=$1/work" none /etc || exit
    shift
    for time in 1 2; do "$@" || exit; done
    for folder in {folders}; do cp --parents "/etc/$folder"/*ktrial-sample* "$OUT/" || exit; done
    """
    (tmp_path / "got").mkdir()
    said = ran("unshare", "-m", "sh", "-c", script, "sh", tmp_path / "etc", *play, OUT=str(tmp_path / "got"), **own)
    first, second = re.findall(r"changed=(\d+)", said)
    assert int(first) > 5
    assert second == "0"
    for path in (path for path in paths if "/files/" in str(path)):
        assert (tmp_path / "got" / str(path).partition("/files/")[2]).read_bytes() == path.read_bytes()
    calls = (tmp_path / "calls").read_text()
    assert "sysctl\n--system\n" in calls
    assert "systemctl\nenable\n--now\nktrial-sample.service\n" in calls
