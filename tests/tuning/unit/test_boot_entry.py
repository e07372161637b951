# SPDX-License-Identifier: Apache-2.0
"""Entries of trial boots, made from boot loaders' files in the forms of five distributions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, Contradiction, KtrialError, Refused, UnknownName
from ktrial.tuning.boots.command_line import (
    MARK,
    NETS,
    base_words,
    change_line,
    find_guarded_words,
    parse_changes,
)
from ktrial.tuning.boots.default_kernel import place_kernel, saved_rival
from ktrial.tuning.boots.entry import BootGrounds, BootPlan, entry_json, find_kernel, plan_boot, plan_rehearsal
from ktrial.tuning.boots.grub_menu import read_grub_config
from ktrial.tuning.boots.loader_entry import entry_id, read_loader_entry
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.lasting.model import LastingEntry

FOLDER = Path(__file__).parent / "boot_files"
DEBIAN_LINE = "BOOT_IMAGE=/boot/vmlinuz-6.1.0-13-amd64 root=UUID=11111111-aaaa-4bbb-8ccc-000000000001 ro quiet\n"
ARCH_LINE = (
    "BOOT_IMAGE=/@/boot/vmlinuz-linux root=UUID=55555555-aaaa-4bbb-8ccc-000000000005 rw rootflags=subvol=@"
    " loglevel=3 quiet"
)


def boot(*names: str) -> tuple[str, ...]:
    return tuple(f"/boot/{name}" for name in names)


def debian(**more: Any) -> BootGrounds:
    files = boot(
        *(f"{kind}-6.1.0-{number}-amd64" for kind in ("vmlinuz", "initrd.img") for number in (12, 13)), "vmlinuz-7.0"
    )
    return msgspec.structs.replace(grub("debian", DEBIAN_LINE, "6.1.0-13-amd64", files), **more)


def grub(name: str, line: str, release: str, files: tuple[str, ...], **more: Any) -> BootGrounds:
    own = {
        "loader": "grub",
        "command_line": line,
        "release": release,
        "files": files,
        "grub_path": "/boot/grub/grub.cfg",
        "grub_text": (FOLDER / f"{name}.cfg").read_text(),
    }
    return BootGrounds(**{**own, **more})


def ubuntu() -> BootGrounds:
    line = "BOOT_IMAGE=/vmlinuz-6.8.0-48-generic root=/dev/mapper/ubuntu--vg-ubuntu--lv ro quiet splash vt.handoff=7"
    kinds = ("vmlinuz", "initrd.img")
    files = boot(*(f"{kind}-6.8.0-{number}-generic" for kind in kinds for number in (45, 48)))
    return grub("ubuntu", line, "6.8.0-48-generic", files)


def fedora(entry: str | None = None, line: str = "") -> BootGrounds:
    release = "6.11.4-301.fc41.x86_64"
    return grub(
        "fedora",
        line or f"BOOT_IMAGE=(hd0,gpt2)/vmlinuz-{release} root=UUID=44444444-aaaa-4bbb-8ccc-00000000000f ro rhgb quiet",
        release,
        boot(f"vmlinuz-{release}", f"initramfs-{release}.img"),
        grub_path="/boot/grub2/grub.cfg",
        entries={f"/boot/loader/entries/0123-{release}.conf": entry or (FOLDER / "fedora.conf").read_text()},
    )


def arch() -> BootGrounds:
    images = ("amd-ucode.img", "initramfs-linux.img", "initramfs-linux-fallback.img", "initramfs-linux-lts.img")
    return grub("arch", ARCH_LINE, "6.12.1-arch1-1", boot("vmlinuz-linux", "vmlinuz-linux-lts", *images))


def opensuse() -> BootGrounds:
    release = "6.4.0-150600.21-default"
    line = f"BOOT_IMAGE=/boot/vmlinuz-{release} root=UUID=66666666-aaaa-4bbb-8ccc-000000000006 splash=silent quiet"
    line += " security=apparmor mitigations=auto"
    return grub("opensuse", line, release, boot(f"vmlinuz-{release}", f"initrd-{release}"))


def systemd_boot(selected: str | None = "0123-6.1.conf", **more: Any) -> BootGrounds:
    folder = "/0123456789abcdef0123456789abcdef/6.1.0-13-amd64"
    line = f"initrd={folder}/initrd.img-6.1.0-13-amd64 root=UUID=77777777-aaaa-4bbb-8ccc-000000000007 ro quiet"
    line += " systemd.machine_id=0123456789abcdef0123456789abcdef"
    own = {
        "loader": "systemd-boot",
        "command_line": line.replace("/01", "\\01").replace("/6", "\\6").replace("/initrd", "\\initrd"),
        "release": "6.1.0-13-amd64",
        "files": (f"/efi{folder}/linux", f"/efi{folder}/initrd.img-6.1.0-13-amd64"),
        "entries": {
            "/efi/loader/entries/0123-6.1+3-1.conf": (FOLDER / "debian.conf").read_text(),
            "/efi/loader/entries/arch.conf": (FOLDER / "arch.conf").read_text(),
        },
        "selected": selected,
        "mount": "/efi",
    }
    return BootGrounds(**{**own, **more})


def planned(grounds: BootGrounds, *arguments: str, **more: Any) -> BootPlan:
    return plan_boot(grounds, parse_changes(arguments), **more)


@pytest.mark.parametrize(
    "grounds, kernel, initrds, search, modules",
    [
        (
            debian(),
            "/boot/vmlinuz-6.1.0-13-amd64",
            ["/boot/initrd.img-6.1.0-13-amd64"],
            "11111111-aaaa-4bbb-8ccc-000000000001",
            ["gzio", "part_gpt", "ext2"],
        ),
        (
            ubuntu(),
            "/vmlinuz-6.8.0-48-generic",
            ["/initrd.img-6.8.0-48-generic"],
            "33333333-aaaa-4bbb-8ccc-000000000003",
            ["gzio", "part_gpt", "ext2"],
        ),
        (
            fedora(),
            "/vmlinuz-6.11.4-301.fc41.x86_64",
            ["/initramfs-6.11.4-301.fc41.x86_64.img"],
            "44444444-aaaa-4bbb-8ccc-000000000004",
            ["part_gpt", "ext2", "fat"],
        ),
        (
            arch(),
            "/@/boot/vmlinuz-linux",
            ["/@/boot/amd-ucode.img", "/@/boot/initramfs-linux.img"],
            "55555555-aaaa-4bbb-8ccc-000000000005",
            ["gzio", "part_gpt", "btrfs"],
        ),
        (
            opensuse(),
            "/boot/vmlinuz-6.4.0-150600.21-default",
            ["/boot/initrd-6.4.0-150600.21-default"],
            "66666666-aaaa-4bbb-8ccc-000000000006",
            ["gzio", "part_gpt", "btrfs"],
        ),
    ],
)
def test_an_entry_loads_what_the_running_one_loads(
    grounds: BootGrounds, kernel: str, initrds: list[str], search: str, modules: list[str]
) -> None:
    found = planned(grounds, "nohz_full=2-9")
    entry = entry_json(found)
    assert (entry["kernel"], entry["initrds"], entry["search"]) == (kernel, initrds, search)
    assert entry["modules"] == modules
    assert entry["file"] == f"/boot/{kernel.rpartition('/')[2]}"
    assert entry["words"] == [{"name": "nohz_full", "value": "2-9"}]
    assert entry["base"] == [word for word in grounds.command_line.split() if not word.startswith("BOOT_IMAGE=")]
    assert "watchdog_s" not in entry
    assert found.path == f"{(grounds.grub_path or '').rpartition('/')[0]}/custom.cfg"
    assert (found.form, found.release, found.has_initramfs) == ("grub-entries", grounds.release, True)


def test_systemd_boot_has_a_file_for_the_entry() -> None:
    found = planned(systemd_boot(), "threadirqs -quiet", watchdog_s=60)
    entry = entry_json(found)
    folder = "/0123456789abcdef0123456789abcdef/6.1.0-13-amd64"
    assert (found.form, found.path) == ("boot-entry", "/efi/loader/entries/ktrial-trial.conf")
    assert (entry["kernel"], entry["file"]) == (f"{folder}/linux", f"/efi{folder}/linux")
    assert entry["initrds"] == [f"{folder}/initrd.img-6.1.0-13-amd64"]
    assert found.initrd_files == (f"/efi{folder}/initrd.img-6.1.0-13-amd64",)
    assert entry["base"] == [
        "root=UUID=77777777-aaaa-4bbb-8ccc-000000000007",
        "ro",
        "systemd.machine_id=0123456789abcdef0123456789abcdef",
    ]
    assert (entry["words"], found.removed, entry["watchdog_s"]) == ([{"name": "threadirqs"}], ("quiet",), 60)
    assert "search" not in entry
    # The variable is not always there.
    assert planned(systemd_boot(None), "-quiet").entry.kernel == f"{folder}/linux"
    with pytest.raises(Refused, match="systemd-boot has no entry file for windows"):
        planned(systemd_boot("windows"), "-quiet")


def test_the_rehearsal_is_the_running_kernel_with_its_own_words() -> None:
    found = plan_rehearsal(debian())
    assert found.entry.id == "ktrial-rehearsal"
    assert found.entry.words == ()
    assert found.entry.base == ("root=UUID=11111111-aaaa-4bbb-8ccc-000000000001", "ro", "quiet")
    assert plan_rehearsal(systemd_boot()).path == "/efi/loader/entries/ktrial-rehearsal.conf"


def test_the_entry_of_another_linux_with_the_same_kernel_is_not_taken() -> None:
    grounds = debian(command_line=DEBIAN_LINE.replace("1111-", "2222-").replace("11111111", "22222222"))
    other = debian(command_line=DEBIAN_LINE.replace("11111111-aaaa-4bbb-8ccc-000000000001", "nobody"))
    mine = debian(
        command_line=DEBIAN_LINE.replace("11111111-aaaa-4bbb-8ccc-000000000001", "22222222-aaaa-4bbb-8ccc-000000000002")
    )
    assert planned(mine, "threadirqs").entry.search == "22222222-aaaa-4bbb-8ccc-000000000002"
    for one in (grounds, other):
        with pytest.raises(Refused, match=r"no entry of /boot/grub/grub\.cfg loads the running kernel"):
            planned(one, "threadirqs")


@pytest.mark.parametrize(
    "grounds, argument, kernel, initrds, release, has_initramfs",
    [
        (
            debian(),
            "6.1.0-12-amd64",
            "/boot/vmlinuz-6.1.0-12-amd64",
            ("/boot/initrd.img-6.1.0-12-amd64",),
            "6.1.0-12-amd64",
            True,
        ),
        (debian(), "/boot/vmlinuz-7.0", "/boot/vmlinuz-7.0", (), "7.0", False),
        (
            ubuntu(),
            "6.8.0-45-generic",
            "/vmlinuz-6.8.0-45-generic",
            ("/initrd.img-6.8.0-45-generic",),
            "6.8.0-45-generic",
            True,
        ),
        (
            arch(),
            "/boot/vmlinuz-linux-lts",
            "/@/boot/vmlinuz-linux-lts",
            ("/@/boot/amd-ucode.img", "/@/boot/initramfs-linux-lts.img"),
            "linux-lts",
            True,
        ),
    ],
)
def test_another_kernel_comes_with_its_initramfs(
    grounds: BootGrounds, argument: str, kernel: str, initrds: tuple[str, ...], release: str, has_initramfs: bool
) -> None:
    path = find_kernel(argument, grounds)
    found = plan_boot(grounds, (), kernel=path)
    assert (found.entry.kernel, found.entry.initrds, found.release) == (kernel, initrds, release)
    assert (found.has_initramfs, found.running_has_initramfs, found.is_other_kernel) == (has_initramfs, True, True)
    assert found.entry.title == f"ktrial: {kernel.rpartition('/')[2]}"


def test_another_kernel_of_systemd_boot() -> None:
    grounds = systemd_boot(files=(*systemd_boot().files, "/efi/vmlinuz-linux", "/boot/vmlinuz-9", "/efi/vmlinuz-9"))
    found = plan_boot(grounds, (), kernel="/efi/vmlinuz-linux")
    assert found.entry.initrds == ("/intel-ucode.img", "/initramfs-linux.img")
    assert found.initrd_files == ("/efi/intel-ucode.img", "/efi/initramfs-linux.img")
    with pytest.raises(Refused, match=r"only files of its own partition \(/efi\)"):
        plan_boot(grounds, (), kernel="/boot/vmlinuz-9")
    with pytest.raises(Refused, match="ktrial cannot tell which initramfs"):
        plan_boot(grounds, (), kernel="/efi/vmlinuz-9")
    assert find_kernel("6.1.0-13-amd64", grounds) == systemd_boot().files[0]


def test_what_is_no_kernel_here() -> None:
    assert find_kernel("threadirqs", debian()) is None
    assert find_kernel("6.9", debian()) is None
    with pytest.raises(UnknownName, match=r"/boot/vmlinuz-6\.1\.0-14-amd64") as error:
        find_kernel("/boot/vmlinuz-6.1.0-14-amd64", debian())
    assert "did you mean /boot/vmlinuz-6.1.0-1" in str(error.value.hint)
    with pytest.raises(BadInput, match="nothing to try"):
        plan_boot(debian(), (), kernel="/boot/vmlinuz-6.1.0-13-amd64")
    with pytest.raises(BadInput, match="nothing to try"):
        plan_boot(debian(), ())


IN_MENU = "linux\t/boot/vmlinuz-6.1.0-13-amd64 root=UUID=11111111-aaaa-4bbb-8ccc-000000000001 ro  quiet\n"


@pytest.mark.parametrize(
    "old, new, why",
    [
        ("insmod gzio", "cryptomount -u 0123", "unlocks an encrypted disk (cryptomount)"),
        ("insmod gzio", "loopback loop /a.iso", "boots from a disk image (loopback)"),
        ("insmod gzio", "devicetree /a.dtb", "loads a device tree (devicetree)"),
        ("insmod gzio", "acpi /a.aml", "runs acpi"),
        (IN_MENU, f"if true; then\n{IN_MENU}fi\n", "runs linux under a condition"),
        ("/boot/initrd.img-6.1.0-13-amd64\n", "/boot/${image}\n", "has a variable in a path (/boot/${image})"),
        ("/boot/initrd.img-6.1.0-13-amd64\n", "newc:x:/y\n", "names a file in an unknown form (newc:x:/y)"),
        ("--fs-uuid --set=root --hint", "--label --set=root --hint", "by a label or a file"),
        ("ahci0,gpt2  1", "ahci0,gpt2  2", "finds its disk in two ways"),
        ("search --no", "true --no", "names its disk by number"),
        ("linux\t/boot", "multiboot2 /boot/xen.gz\n\tmodule2 /boot", "loads Xen"),
    ],
)
def test_what_an_entry_cannot_carry_is_named(old: str, new: str, why: str) -> None:
    text = debian().grub_text
    head, menu, rest = text.partition("menuentry 'Debian")
    entry, close, rest = rest.partition("\n}\n")
    assert old in entry + close
    others = rest[: rest.index("submenu")] + rest[rest.index("### END /etc/grub.d/10_linux") :]
    changed = debian(grub_text=head + menu + (entry + close).replace(old, new) + others)
    with pytest.raises(Refused, match="GRUB's entry 'Debian GNU/Linux' ") as error:
        planned(changed, "threadirqs")
    assert why in str(error.value)


def test_grub_that_unlocks_a_disk_first_and_a_kernel_without_a_name() -> None:
    locked = debian(grub_text=debian().grub_text.replace("set timeout_style=menu", "cryptomount -a"))
    with pytest.raises(Refused, match="unlocks an encrypted disk"):
        planned(locked, "threadirqs")
    with pytest.raises(Refused, match="does not name the kernel's file"):
        planned(debian(command_line="root=/dev/sda1 ro"), "threadirqs")
    with pytest.raises(Refused, match=r"/boot/vmlinuz-6\.1\.0-13-amd64") as error:
        planned(debian(files=()), "threadirqs")
    assert "mount /boot" in str(error.value.hint)
    variable = (FOLDER / "fedora.conf").read_text().replace("$tuned_initrd", "$early_initrd")
    with pytest.raises(Refused, match=r"has a variable in a path \(\$early_initrd\)"):
        planned(fedora(variable), "threadirqs")
    with pytest.raises(Refused, match="starts an EFI program"):
        planned(systemd_boot(entries={"/efi/loader/entries/0123-6.1.conf": "efi /a.efi\n"}), "-quiet")


@pytest.mark.parametrize(
    "arguments, base, words, removed",
    [
        (["nohz-full=1"], "ro quiet console=tty0 a.b=1", "nohz-full=1", "nohz_full=2-9"),
        (["threadirqs -quiet"], "ro nohz_full=2-9 console=tty0 a.b=1", "threadirqs", "quiet"),
        (["console=ttyS0"], "ro quiet nohz_full=2-9 console=tty0 a.b=1", "console=ttyS0", ""),
        (["-console=tty0", "console=ttyS0"], "ro quiet nohz_full=2-9 a.b=1", "console=ttyS0", "console=tty0"),
        (["boot:a-b.c=1", "-a.b"], "ro quiet nohz_full=2-9 console=tty0", "a-b.c=1", "a.b=1"),
        (["hugepages=4"], "ro quiet nohz_full=2-9 console=tty0 a.b=1", "hugepages=4", ""),
    ],
)
def test_words_are_added_replaced_and_removed(arguments: list[str], base: str, words: str, removed: str) -> None:
    line = change_line(["ro", "quiet", "nohz_full=2-9", "console=tty0", "a.b=1"], parse_changes(arguments))
    assert " ".join(line.base) == base
    assert " ".join(word.text for word in line.words) == words
    assert " ".join(line.removed) == removed


def test_pages_of_two_sizes_add_up() -> None:
    line = change_line(["hugepages=8"], parse_changes(["hugepages=4"]))
    assert (line.base, line.removed) == ((), ("hugepages=8",))
    line = change_line(["hugepagesz=2M", "hugepages=8"], parse_changes(["hugepagesz=1G hugepages=4"]))
    assert (line.base, line.removed) == (("hugepagesz=2M", "hugepages=8"), ())


@pytest.mark.parametrize(
    "arguments, error, why",
    [
        (["-splash"], BadInput, "cannot remove splash: it is not on the kernel command line"),
        (["-quiet=1"], BadInput, "cannot remove quiet=1"),
        (["quiet"], BadInput, "on the kernel command line already"),
        (["a=1", "a=2"], Contradiction, "a=1 and a=2"),
        (["quiet=1 -quiet"], Contradiction, "exclude"),
        (["a=$(id)"], BadInput, "is not a kernel argument"),
        (["a='b'"], BadInput, "is not a kernel argument"),
        (["-"], BadInput, "is not a kernel argument"),
        ([" "], BadInput, "no kernel argument"),
        (["softlockup-panic=0"], BadInput, "ktrial reserves it"),
        ([f"a={'x' * 1900}"], Refused, "the kernel accepts at most 2047"),
    ],
)
def test_wrong_words_are_refused(arguments: list[str], error: type[KtrialError], why: str) -> None:
    with pytest.raises(error) as found:
        change_line(["ro", "quiet"], parse_changes(arguments))
    assert why in str(found.value)


@pytest.mark.parametrize("word", ['acpi_osi="Windows', "memmap=64M$0x10", "a\\b", "x=*", "x=é", "x=a;b"])
def test_a_word_that_loaders_read_in_their_own_way_is_refused_unless_it_goes(word: str) -> None:
    with pytest.raises(Refused) as error:
        change_line(["ro", word], parse_changes(["threadirqs"]))
    assert word in str(error.value)
    name = word.partition("=")[0]
    assert f"'-{name}'" in str(error.value.hint)
    assert change_line(["ro", word], parse_changes([f"-{name}"])).base == ("ro",)


def test_words_for_init_and_trial_boots_are_refused() -> None:
    with pytest.raises(Refused, match="has a `--`"):
        base_words("BOOT_IMAGE=/a ro -- single", "grub")
    with pytest.raises(Refused, match="this boot is a trial boot already"):
        base_words(f"ro {MARK}=ktrial-trial", "grub")
    assert base_words("BOOT_IMAGE=/a initrd=x ro\n", "grub") == ("initrd=x", "ro")
    assert base_words("initrd=\\a ro", "systemd-boot") == ("ro",)


@pytest.mark.parametrize(
    "base, argument, words",
    [
        ("ro", "mitigations=off", ["mitigations=off"]),
        ("ro", "mitigations=auto", []),
        ("mitigations=auto,nosmt", "-mitigations", ["-mitigations=auto,nosmt"]),
        ("mitigations=auto,nosmt", "mitigations=auto", []),
        ("mitigations=off", "-mitigations", []),
        ("lockdown=integrity", "-lockdown", ["-lockdown=integrity"]),
        ("nokaslr", "-nokaslr", []),
        ("slab_nomerge", "-slab_nomerge", ["-slab_nomerge"]),
        ("quiet", "-quiet", []),
    ],
)
def test_what_weakens_the_machine_is_named(base: str, argument: str, words: list[str]) -> None:
    line = change_line(base.split(), parse_changes([argument]))
    found = find_guarded_words(line, load_catalog().knobs)
    assert [one.word for one in found] == words
    assert all(one.price for one in found if "mitigations" in one.name)


@pytest.mark.parametrize(
    "name, signs",
    [
        ("debian", {"reads_next_entry", "reads_custom"}),
        ("ubuntu", {"reads_next_entry", "reads_custom"}),
        ("fedora", {"reads_next_entry", "reads_custom", "has_entry_files", "may_ask_password"}),
        ("arch", {"reads_next_entry", "reads_custom", "waits_for_key"}),
        ("opensuse", {"reads_next_entry", "reads_custom"}),
    ],
)
def test_what_a_configuration_does(name: str, signs: set[str]) -> None:
    config = read_grub_config((FOLDER / f"{name}.cfg").read_text())
    switches = ("reads_next_entry", "reads_custom", "has_entry_files", "asks_password", "waits_for_key")
    assert {
        one for one in (*switches, "unlocks_disk", "verifies_files", "may_ask_password") if getattr(config, one)
    } == signs


@pytest.mark.parametrize(
    "text, sign",
    [
        ("save_env next_entry", "reads_next_entry"),
        ("source ${prefix}/custom.cfg", "reads_custom"),
        ("set next_entry=", None),
    ],
)
def test_a_line_less_is_seen(text: str, sign: str | None) -> None:
    whole = debian().grub_text
    for line in (text, text.replace("${prefix}", "$prefix"), text.replace("${prefix}", "${config_directory}")):
        whole = "\n".join(one for one in whole.splitlines() if one.strip() != line)
    config = read_grub_config(whole)
    lost = {one for one in ("reads_next_entry", "reads_custom") if not getattr(config, one)}
    assert lost == ({sign} if sign else set())


def test_only_commands_that_always_run_count() -> None:
    config = read_grub_config("# don't\nfunction f {\n cryptomount -a\n set check_signatures=enforce\n}\nset a=b c=d\n")
    assert (config.unlocks_disk, config.verifies_files, config.variables) == (False, False, {"a": "b", "c": "d"})
    config = read_grub_config("set a=b\nif true; then\n set a=b\n set c=d\nfi\nset e=f\nset e=g\n")
    assert config.variables == {}
    (entry,) = read_grub_config("# don't\nmenuentry 'it' {\n linux /a # don't\n}\n# don't").entries
    assert (entry.title, entry.kernel, entry.words) == ("it", "/a", ())


def test_of_entries_for_one_kernel_that_with_the_words_of_this_boot_is_taken() -> None:
    text = debian().grub_text
    simple = text[text.index("menuentry 'Debian GNU/Linux' ") : text.index("submenu 'Adv")]
    recovery = simple.replace("ro  quiet", "ro single").replace("initrd.img-6.1.0-13", "initrd.img-6.1.0-12")
    assert planned(debian(grub_text=recovery + simple), "threadirqs").entry.initrds == (
        "/boot/initrd.img-6.1.0-13-amd64",
    )
    assert planned(debian(grub_text=simple + recovery), "threadirqs").entry.initrds == (
        "/boot/initrd.img-6.1.0-13-amd64",
    )


def test_the_other_kernels_own_entry_counts_only_on_the_same_disk() -> None:
    own = "linux\t/boot/vmlinuz-6.1.0-12-amd64"
    before, after = debian().grub_text.rsplit(own, 1)
    unfit = debian(grub_text=f"{before}cryptomount -a\n{own}{after}")
    with pytest.raises(Refused, match="unlocks an encrypted disk"):
        plan_boot(unfit, (), kernel="/boot/vmlinuz-6.1.0-12-amd64")
    start = before.rindex("search")
    moved = before[:start] + before[start:].replace("11111111", "99999999") + own
    elsewhere = debian(grub_text=moved + after.replace("initrd.img-6.1.0-12", "initrd.img-6.1.0-13"))
    found = plan_boot(elsewhere, (), kernel="/boot/vmlinuz-6.1.0-12-amd64")
    assert found.entry.search == "11111111-aaaa-4bbb-8ccc-000000000001"
    assert found.entry.initrds == ("/boot/initrd.img-6.1.0-12-amd64",)


def test_entries_of_ktrial_are_no_ones_origin() -> None:
    own = {"/efi/loader/entries/ktrial-trial.conf": (FOLDER / "debian.conf").read_text()}
    found = planned(systemd_boot(None, entries={**systemd_boot().entries, **own}), "-quiet")
    assert found.entry.kernel.endswith("/linux")


@pytest.mark.parametrize(
    "name, wanted",
    [("a.conf", "a"), ("/efi/loader/entries/a-6.1+3-1.conf", "a-6.1"), ("a+0.conf", "a"), ("a+b", "a+b"), ("a", "a")],
)
def test_ids_have_no_boot_counter(name: str, wanted: str) -> None:
    assert entry_id(name) == wanted


SCRIPT = st.lists(
    st.sampled_from(
        [
            *(
                "menuentry 'x' {",
                "}",
                "if true; then",
                "fi",
                "linux /a b $c",
                "initrd /b",
                "search --fs-uuid --set=root 1",
            ),
            *(
                "'",
                '"',
                "\\",
                "#",
                "\n",
                " ",
                "function f {",
                "blscfg",
                "for i in a; do",
                "done",
                "$",
                "${",
                "set a=b",
                ";",
            ),
        ]
    ),
    max_size=20,
).map("".join)


@given(SCRIPT | st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    config = read_grub_config(text)
    for entry in config.entries:
        assert "menuentry" in text
        assert entry.unfit or (entry.kernel.startswith("/") and "$" not in entry.kernel)
    read_loader_entry(text, {"c": "d"})


WORDS = st.from_regex(r"[a-z]{1,3}(=[0-9a-c]{1,2})?", fullmatch=True)


@given(st.lists(WORDS), st.lists(WORDS | WORDS.map("-{}".format), min_size=1))
def test_a_changed_line_holds_what_was_there_or_asked_for(base: list[str], asked: list[str]) -> None:
    try:
        line = change_line(base, parse_changes(asked))
    except BadInput:
        return
    assert set(line.base) | set(line.removed) == set(base)
    assert list(line.base) == [word for word in base if word in line.base]
    assert {word.text for word in line.words} == {word for word in asked if not word.startswith("-")}
    assert not {word.name for word in line.words} & set(NETS)
    for word in asked:
        if word.startswith("-"):
            assert not [one for one in line.base if one == word[1:] or one.partition("=")[0] == word[1:]]


def test_entries_have_the_names_of_their_menus() -> None:
    found = {entry.ids: entry.kernel for entry in read_grub_config(debian().grub_text).entries}
    uuid = "11111111-aaaa-4bbb-8ccc-000000000001"
    assert found[(f"gnulinux-simple-{uuid}",)] == "/boot/vmlinuz-6.1.0-13-amd64"
    other = (f"gnulinux-advanced-{uuid}", "gnulinux-6.1.0-12-amd64-advanced-1")
    assert found[other] == "/boot/vmlinuz-6.1.0-12-amd64"
    assert ("osprober-gnulinux-simple-2",) in found
    (entry,) = read_grub_config("menuentry \"a\" --id 'b' {\nlinux /x\n}").entries
    assert entry.ids == ("b",)
    (entry,) = read_grub_config("submenu s {\nmenuentry a {\nlinux /x\n}\n}").entries
    assert entry.ids == ("", "")


def default_of(number: int, settings: str = "GRUB_DEFAULT=0\n", environment: bytes = b"") -> LastingEntry:
    machine = debian()
    file = f"/boot/vmlinuz-6.1.0-{number}-amd64"
    return place_kernel(file, machine.grub_text, machine.command_line, {"/etc/default/grub": settings}, environment)


def test_the_default_kernel_has_an_entry_of_its_own_that_is_no_rescue() -> None:
    ids = ["gnulinux-advanced-11111111-aaaa-4bbb-8ccc-000000000001", "gnulinux-6.1.0-12-amd64-advanced-1"]
    assert default_of(12).holds == {"kernel": "/boot/vmlinuz-6.1.0-12-amd64", "entry": ids}
    for number in (13, 14):  # only a rescue entry and the one of the newest kernel; none
        with pytest.raises(Refused, match="GRUB's menu has no separate entry for this kernel"):
            default_of(number)


def test_a_saved_entry_wins_where_grub_boots_it() -> None:
    saved = b"# GRUB Environment Block\nsaved_entry=gnulinux-x\n####"
    with pytest.raises(Refused, match=r"/etc/default/grub:2 sets GRUB_DEFAULT=saved.* \(gnulinux-x\)") as error:
        default_of(12, "GRUB_TIMEOUT=1\nGRUB_DEFAULT='saved' # mine\n", saved)
    assert "grub-set-default 'gnulinux-advanced-" in str(error.value.hint)
    with pytest.raises(Refused, match=r"the saved entry \(none is saved\)"):
        default_of(12, "GRUB_DEFAULT=saved\n")
    assert default_of(12, "GRUB_DEFAULT=saved\nGRUB_DEFAULT=2\n", saved).form == "grub.d"
    rival = saved_rival(saved, "grubenv")
    assert rival is not None
    assert (rival.value, rival.wins) == ("gnulinux-x", False)
    assert saved_rival(b"next_entry=\n", "grubenv") is None
