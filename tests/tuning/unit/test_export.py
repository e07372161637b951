# SPDX-License-Identifier: Apache-2.0
"""What `ktrial export` writes for each target: golden files, refusals, and what our own readers read back.

`KTRIAL_RECORD=1` writes the golden files anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given

from ktrial.kit.errors import BadInput
from ktrial.machine.facts import FactBook
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.exporters import ExportTarget, export, targets
from ktrial.tuning.exports.model import FORMS, LastingSetting
from ktrial.tuning.exports.resolve import WantedSetting, lasting_settings
from ktrial.tuning.origin.formats import modprobe_d, shell, sysctl_d, tmpfiles_d, tuned, udev
from ktrial.tuning.origin.formats.lines import Assignment
from ktrial.tuning.origin.import_profile import import_profile
from ktrial.tuning.plans.model import Context
from tests.support.exports import NASTY, PLACES, SETTINGS, hostile_settings, hostile_words, lasting, own_knob, profile

GOLDEN = Path(__file__).parents[2] / "golden" / "exports"
TARGETS = targets()


def expressible(target: ExportTarget) -> tuple[LastingSetting, ...]:
    return tuple(one for one in SETTINGS if target.objection(one) is None)


def files_of(target: ExportTarget, *settings: LastingSetting) -> Mapping[str, str]:
    return export(profile(settings), [target], TARGETS.values())[target]


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_writes_its_golden_files(name: str) -> None:
    target = TARGETS[name]
    files = files_of(target, *expressible(target))
    folder = GOLDEN / name
    if os.environ.get("KTRIAL_RECORD"):
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    found = {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}
    assert files == found


def test_every_golden_folder_is_one_of_a_target() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(TARGETS)
    assert set(targets()) == set(TARGETS)


def test_every_form_but_patches_has_a_target_and_a_sample() -> None:
    assert {form for target in TARGETS.values() for form in target.forms} == set(FORMS) - {"patch"}
    assert {one.form for one in SETTINGS} == set(FORMS) - {"patch"}
    for one in SETTINGS:
        assert any(target.objection(one) is None for target in TARGETS.values()), one.address


def test_each_sample_is_in_the_files_of_each_target_that_says_it_can_express_it() -> None:
    for target in TARGETS.values():
        text = "\n".join(files_of(target, *expressible(target)).values())
        for one in expressible(target):
            assert f"{one.address} = {one.text}" in text
            assert all(reason in text for reason in one.reasons)


def test_what_a_target_cannot_express_is_refused_with_those_that_can() -> None:
    settings = [lasting("vm.swappiness=10"), lasting("queue:scheduler@nvme*=none"), lasting("boot:preempt=full")]
    with pytest.raises(BadInput) as caught:
        export(profile(settings), [TARGETS["sysctl.d"]], TARGETS.values())
    message, hint = caught.value.message, caught.value.hint
    assert "vm.swappiness" not in message
    assert "queue:scheduler@nvme*=none: sysctl.d cannot set files of devices (can: udev, tmpfiles.d" in message
    assert "boot:preempt=full: sysctl.d cannot set kernel arguments (can: grub, " in message
    assert hint == "add --to udev --to grub"


def test_a_patch_is_refused_by_all() -> None:
    with pytest.raises(BadInput, match=r"no target can; `ktrial kernel build` applies patches"):
        export(profile([lasting("patch:bore=6.6.3")]), [TARGETS["kconfig"]], TARGETS.values())


def test_each_setting_goes_to_the_first_target_that_can_express_it() -> None:
    settings = [lasting("vm.swappiness=10"), lasting("queue:scheduler@nvme*=none"), lasting("thp:enabled=never")]
    chosen = [TARGETS[name] for name in ("udev", "sysctl.d", "systemd-unit", "tuned")]
    made = export(profile(settings), chosen, TARGETS.values())
    assert [target.name for target in made] == ["udev", "sysctl.d", "systemd-unit"]
    assert sorted(path for files in made.values() for path in files) == [
        "etc/sysctl.d/90-ktrial-sample.conf",
        "etc/systemd/system/ktrial-sample.service",
        "etc/udev/rules.d/90-ktrial-sample.rules",
    ]


@pytest.mark.parametrize(
    "target, word, reason",
    [
        ("modprobe.d", "zswap:enabled=1", "zswap is built into the kernel"),
        ("tmpfiles.d", "module:nvme_core.io_timeout=30", "counts when the module is loaded"),
        ("udev", "net:rps_cpus@*/*=f", None),
        ("udev", "net:rps_cpus@eth0/*=f", "only to its first match"),
        ("udev", "cpuidle:state_disable@cpu0/*=1", "only to its first match"),
        ("tuned", "irq:smp_affinity@irq7=3", "TuneD writes below /sys only"),
        ("grub", "boot:nowatchdog=off", "leave it out"),
        ("grub", "boot:isolcpus=2 3", "boot loaders interpret"),
        ("zram-generator", "zram:recomp_algorithm=algo=zstd", "no key for recomp_algorithm"),
        ("build-flags", "build:KCFLAGS=-DX=$(id)", "make would expand"),
        ("systemd-unit", "zram:disksize=1GiB", "cannot set zram devices"),
    ],
)
def test_what_a_target_cannot_say_about_a_value_is_told(target: str, word: str, reason: str | None) -> None:
    objection = TARGETS[target].objection(lasting(word))
    assert objection is None if reason is None else reason in str(objection)


def context() -> Context:
    catalog = load_catalog()
    return Context(catalog.knobs, catalog.kinds, FactBook({}), {})


#: Target -> file name to import its file under.
READ = {
    "sysctl.d": "sysctl.d/x.conf",
    "tmpfiles.d": "tmpfiles.d/x.conf",
    "udev": "x.rules",
    "modprobe.d": "modprobe.d/x.conf",
    "zram-generator": "zram-generator.conf",
    "grub": "default/grub",
    "tuned": "tuned.conf",
    "shell": "x.sh",
}
#: Of modules' parameters these readers find the boot parameter or another knob that stands for the same.
SHARED = {"module:nvme_core.io_timeout", "power:iwlwifi_power_save", "zswap:max_pool_percent"}


@pytest.mark.parametrize("name", READ)
def test_import_reads_back_what_export_wrote(name: str) -> None:
    catalog = load_catalog()
    target = TARGETS[name]
    settings = [one for one in expressible(target) if not (name == "grub" and one.form == "module")]
    (text,) = files_of(target, *settings).values()
    imported = import_profile(text.encode(), READ[name], catalog)
    assert (imported.unknown, imported.notes) == ((), ())
    assert imported.unread == ()
    back, left = lasting_settings((WantedSetting(one, "profile x") for one in imported.profile.setting), context())
    assert left == ()
    assert {plain(one) for one in back} == {plain(one) for one in settings}


def plain(one: LastingSetting) -> tuple[str, str, str, bool | None]:
    path = one.path if one.knob.files else ""
    return one.knob.id, path, one.text, one.rotational


PARSERS: Mapping[str, Callable[[str], Iterable[Assignment]]] = {
    "sysctl.d": lambda text: sysctl_d.parse(text, "x").assignments,
    "tmpfiles.d": lambda text: tmpfiles_d.parse(text, "x").assignments,
    "udev": lambda text: udev.parse(text, "x").reading().assignments,
    "modprobe.d": lambda text: modprobe_d.parse(text, "x").assignments,
    "tuned": lambda text: tuned.parse(text, "x").reading().assignments,
    "shell": lambda text: shell.parse(text, "x").assignments,
}


@pytest.mark.parametrize("text", NASTY)
def test_nasty_values_are_read_back_as_they_are_or_refused(text: str) -> None:
    for place in PLACES:
        kind = "sysctl" if place.startswith("/proc") else "module" if place.startswith("/sys/module") else "sysfs"
        read_back(LastingSetting(knob=own_knob("own", place, kind), text=text, place=place, pattern="eth0.100"))


@given(setting=hostile_settings())
def test_hostile_values_are_read_back_as_they_are_or_refused(setting: LastingSetting) -> None:
    read_back(setting)


def read_back(setting: LastingSetting) -> None:
    for name, read in PARSERS.items():
        target = TARGETS[name]
        if setting.form in target.forms and target.objection(setting) is None:
            (text,) = files_of(target, setting).values()
            found: list[Assignment] = list(read(text))
            assert [item.value for item in found] == [setting.text], (name, text)


@given(setting=hostile_words)
def test_hostile_kernel_arguments_are_one_plain_word_or_refused(setting: LastingSetting) -> None:
    for target in TARGETS.values():
        if "boot" in target.forms and target.objection(setting) is None:
            assert not set(setting.text) & set(" \t\n\"'$`\\#;&|<>(){}*?[]"), target.name


@given(setting=hostile_settings())
def test_reasons_never_leave_their_comment(setting: LastingSetting) -> None:
    for target in TARGETS.values():
        if setting.form in target.forms and target.objection(setting) is None:
            with_reason = files_of(target, setting)
            without = files_of(target, msgspec.structs.replace(setting, reasons=()))
            for path, text in with_reason.items():
                added = set(text.split("\n")) - set(without[path].split("\n"))
                if path.endswith(".html"):
                    assert text.count("<") == without[path].count("<") + 2, path  # one more element, <dd>
                    continue
                assert all(line.lstrip().startswith("#") and not line.endswith("\\") for line in added), path


@pytest.mark.parametrize("reason", ["a\\", "a\\ ", "a\n-b = 1", "a\x85b", "\udcff", "a\u2028b"])
def test_a_reason_is_one_line_that_continues_no_other(reason: str) -> None:
    setting = lasting("module:nvme_core.io_timeout=30", reasons=(reason,))
    for name in ("modprobe.d", "grub", "ansible"):
        for text in files_of(TARGETS[name], setting).values():
            assert text.encode().decode() == text
            lines = [line for line in text.splitlines() if line.startswith("#   ")]
            assert not [line for line in lines if line.endswith("\\")]
            assert "-b = 1" not in text.splitlines()
