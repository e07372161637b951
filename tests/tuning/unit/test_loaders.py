# SPDX-License-Identifier: Apache-2.0
"""Which boot loader boots, whether its drop-in can be kept, and which kernel arguments need a confirmation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.cli.options import LOADERS as OFFERED
from ktrial.cli.shared.keeping import confirm_guarded
from ktrial.kit.errors import BadInput, Refused
from ktrial.machine.transactions import Journaled, JournaledStep, Lease
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.exporters import targets
from ktrial.tuning.exports.model import Omission
from ktrial.tuning.lasting import boot_words
from ktrial.tuning.lasting.boot_words import (
    change_of_word,
    find_guarded,
    may_weaken,
    place_removal,
    place_word,
    weakens,
)
from ktrial.tuning.lasting.drift import is_pending
from ktrial.tuning.lasting.keep_plan import plan_keep, wire_keep, without
from ktrial.tuning.lasting.kept_text import read_kept, render
from ktrial.tuning.lasting.live_words import LiveWord, look_at_word
from ktrial.tuning.lasting.loaders import LOADERS, LoaderSigns, NoLoader, judge_loader
from ktrial.tuning.lasting.model import PLACES, FileChange, Form, KeptFile, LastingEntry
from ktrial.tuning.lasting.places import Grounds
from ktrial.tuning.lasting.word_rivals import rivals_of_words, words_in_grub
from ktrial.tuning.plans.model import Plan, Refusal, Why

GRUB = {"/boot/grub/grub.cfg": ["/boot/grub/grub.cfg"]}
SD_BOOT = {"/boot/efi/EFI/systemd/systemd-boot*.efi": ["/boot/efi/EFI/systemd/systemd-bootx64.efi"]}
BLS = {"/boot/loader/entries/*.conf": ["/boot/loader/entries/a.conf"], "/usr/sbin/grubby": ["/usr/sbin/grubby"]}
KNOBS = load_catalog().knobs


def judged(files: Any, chosen: str | None = None, **more: Any) -> NoLoader | None:
    return judge_loader(LoaderSigns(files=files, **more), chosen)


def test_grub_alone_keeps_arguments() -> None:
    assert judged(GRUB) is None
    assert judged({**GRUB, **SD_BOOT}, loader_info="GRUB 2.12") is None
    assert judged({**GRUB, **SD_BOOT}, chosen="grub") is None


@pytest.mark.parametrize(
    "files, more, reason, target",
    [
        (GRUB, {"is_ostree": True}, "rpm-ostree writes", "rpm-ostree"),
        (GRUB, {"is_ostree": True, "is_bootc": True}, "bootc writes", "bootc-loader-entries"),
        ({**GRUB, **BLS}, {}, "the entries of /boot/loader/entries", "grubby"),
        (SD_BOOT, {}, "does not edit the files of systemd-boot", "systemd-boot"),
        ({**SD_BOOT, "/etc/kernel/cmdline": ["/etc/kernel/cmdline"]}, {}, "kernel-install", "kernel-install"),
        ({**GRUB, **SD_BOOT}, {"loader_info": "systemd-boot 252"}, "the files of systemd-boot", "systemd-boot"),
        (SD_BOOT, {"stub_info": "systemd-stub 252"}, "a unified kernel image (systemd-stub 252)", "uki-addon"),
        (SD_BOOT, {"stub_info": "systemd-stub 252", "is_secure": True}, "under Secure Boot", "uki-addon"),
        ({"/boot/limine.conf": ["/boot/limine.conf"]}, {}, "the files of limine (/boot/limine.conf)", "limine"),
    ],
)
def test_another_loader_is_named_with_the_target_that_fits(files: Any, more: Any, reason: str, target: str) -> None:
    found = judged(files, **more)
    assert found is not None
    assert reason in found.reason
    assert found.target == target
    assert target in targets()


def test_without_a_loader_the_places_are_named_and_two_are_a_question() -> None:
    found = judged({})
    assert found is not None
    assert "boot loader in /efi, /boot/efi, /boot, /etc (looked for grub, systemd-boot, limine," in found.reason
    found = judged({**GRUB, **SD_BOOT})
    assert found is not None
    assert "grub (/boot/grub/grub.cfg) and systemd-boot (/boot/efi/EFI" in found.reason
    assert found.hint is not None
    assert found.hint.startswith("add --loader grub or --loader systemd-boot; in a trial, remove")
    found = judged(GRUB, "limine")
    assert found is not None
    assert "cannot find limine here" in found.reason
    assert OFFERED == LOADERS


def refused(name: str, value: str) -> Refusal:
    return Refusal(name, name, Why.AT_BOOT, "a boot parameter", value, f"setting {name}={value}")


def placed(name: str, value: str, *, allow_dangerous: bool = False) -> LastingEntry | Omission:
    change = change_of_word(refused(name, value), KNOBS, ())
    assert change is not None
    return place_word(change, KNOBS[name], None, allow_dangerous=allow_dangerous)


@pytest.mark.parametrize(
    "name, value, word",
    [
        ("boot:transparent_hugepage", "always", "transparent_hugepage=always"),
        ("boot:threadirqs", "on", "threadirqs"),
        ("boot:preempt", "full", "preempt=full"),
        ("boot:mitigations", "auto,nosmt", "mitigations=auto,nosmt"),
    ],
)
def test_a_setting_is_a_word_that_is_read_back(name: str, value: str, word: str) -> None:
    entry = placed(name, value)
    assert isinstance(entry, LastingEntry)
    text = render([entry])
    assert text == f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {word}"\n'
    assert [dict(one.holds) for one in read_kept("grub.d", text)] == [dict(entry.holds)]


def test_what_is_no_word_or_dangerous_is_not_kept() -> None:
    assert isinstance(placed("boot:mitigations", "auto; reboot"), Omission)
    assert isinstance(placed("boot:mitigations", "$(id)"), Omission)
    dangerous = placed("boot:idle", "poll")
    assert isinstance(dangerous, Omission)
    assert "--yes-dangerous" in str(dangerous.hint)
    assert isinstance(placed("boot:idle", "poll", allow_dangerous=True), LastingEntry)


def keep(*refusals: Refusal, kept: Any = None, **grounds: Any) -> Any:
    return plan_keep(Plan("x", (), (), refusals), kept or {}, {}, Grounds(**grounds), KNOBS)


def test_a_loader_that_cannot_be_written_leaves_only_the_arguments_out() -> None:
    found = keep(refused("boot:threadirqs", "on"), no_loader=NoLoader("it boots x", "grubby"))
    assert not found.files
    (one,) = found.left_out
    assert (one.reason, "--to grubby" in one.hint) == ("it boots x", True)


def test_a_word_that_weakens_the_machine_is_confirmed_once() -> None:
    found = keep(refused("boot:mitigations", "off"), refused("boot:threadirqs", "on"))
    assert [one.word for one in found.guarded] == ["mitigations=off"]
    assert "web page" in found.guarded[0].price
    (step,) = wire_keep(found, next_boot=False)["steps"]
    assert step["confirmed"] == ["mitigations"]
    text = str(found.files[0].after)
    kept: dict[Form, KeptFile] = {"grub.d": KeptFile("grub.d", text, text)}
    again = keep(refused("boot:preempt", "full"), kept=kept)
    assert not again.guarded
    (step,) = wire_keep(again, next_boot=False)["steps"]
    assert step["confirmed"] == ["mitigations"]
    (left,) = without(kept, ["boot:mitigations"])
    assert "threadirqs" in str(left.after)
    assert "mitigations" not in str(left.after)


def test_yes_alone_never_confirms_it() -> None:
    guarded = keep(refused("boot:mitigations", "off")).guarded
    with pytest.raises(Refused, match="weakens the protection") as error:
        confirm_guarded(guarded, (), may_ask=False)
    assert error.value.hint == "add --yes-security mitigations if you accept the risk"
    confirm_guarded(guarded, ("mitigations",), may_ask=False)
    with pytest.raises(BadInput, match="needs no confirmation here"):
        confirm_guarded(guarded, ("mitigations", "audit"), may_ask=False)


def test_the_agent_guards_the_same_words() -> None:
    text = (Path(__file__).parents[3] / "agent/src/transact/allow/words.rs").read_text()
    listed = text.partition("const GUARDED")[2].partition("];")[0]
    agent = [
        (name, tuple(re.findall(r'"([^"]+)"', rest)))
        for name, rest in re.findall(r'\("([^"]+)",\s*&\[(.*?)\]\)', listed, re.DOTALL)
    ]
    assert len(agent) == listed.count('("') > 50
    # The first pattern that fits counts.
    assert list(boot_words.GUARDED.items()) == agent
    weakens = re.findall(r'"([^"]+)"', text.partition("const WEAKENS")[2].partition("];")[0])
    assert list(boot_words.WEAKENS) == weakens
    assert set(weakens) <= set(boot_words.GUARDED)
    known = [one.short_name for one in KNOBS.values() if one.kind == "boot" and one.security]
    for name in known:
        entry = LastingEntry(form="grub.d", holds={"name": name}, values={f"boot:{name}": "1"})
        assert find_guarded([FileChange("grub.d", None, "", (entry,))], (), KNOBS), name


def kept_by(boot: bool, old: str | None = None) -> Journaled:
    step = JournaledStep(step=0, path=PLACES["grub.d"], old=old, new=None)
    return Journaled(
        transaction=1,
        title="keep x",
        state="applied",
        began_unix_ms=1,
        this_boot=boot,
        lease=Lease("keep"),
        steps=(step,),
    )


@pytest.mark.parametrize(
    "line, boot, state, now",
    [
        ("quiet nohz-full=1-3", False, "live", "1-3"),
        ("quiet nohz_full=1", False, "differs", "1"),
        ("quiet", False, "differs", None),
        ("quiet", True, "pending", None),
        ("nohz_full=1-3 nohz_full=1", True, "pending", "1"),
        ("quiet -- nohz_full=1-3", False, "differs", None),
    ],
)
def test_a_word_counts_from_the_next_boot_on(line: str, boot: bool, state: str, now: str | None) -> None:
    entry = placed("boot:nohz_full", "1-3", allow_dangerous=True)
    assert isinstance(entry, LastingEntry)
    entry = msgspec.structs.replace(entry, reasons={"boot:nohz_full": "kept by name"})

    def look(*transactions: Journaled) -> LiveWord:
        waits = is_pending("grub.d", "boot:nohz_full", "1-3", transactions, can_be_written=False)
        return look_at_word(entry, line, is_pending=waits)

    found = look(kept_by(boot))
    assert (found.state, found.now) == (state, now)
    # A later transaction that only added another word changes nothing about this one.
    assert look(kept_by(True, render([entry])), kept_by(boot)).state == state


@pytest.mark.parametrize(
    "path, line, wins, value",
    [
        ("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet nohz-full=1"', True, "1"),
        ("/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT='nohz_full=1-3'", False, "1-3"),
        ("/etc/default/grub", "GRUB_CMDLINE_LINUX=nohz_full=2", False, "2"),
        ("/etc/default/grub.d/50_cloud.cfg", "GRUB_CMDLINE_LINUX=nohz_full=2", False, "2"),
        ("/etc/default/grub.d/zz.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nohz_full=2"', True, "2"),
        ("/etc/default/grub.d/zz.cfg", 'GRUB_CMDLINE_LINUX="quiet"', True, None),
    ],
)
def test_who_else_sets_a_word_and_who_wins(path: str, line: str, wins: bool, value: str | None) -> None:
    entry = placed("boot:nohz_full", "1-3", allow_dangerous=True)
    assert isinstance(entry, LastingEntry)
    (rival,) = rivals_of_words([entry], {path: f"# a comment\n{line}\nGRUB_TIMEOUT=5\n"})
    assert (rival.place, rival.wins, rival.value) == (f"{path}:2", wins, value)
    assert not list(
        rivals_of_words([entry], {"/etc/default/grub.d/zz.cfg": 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX x"'})
    )


def removal(word: str, *added: str, files: tuple[str, ...] = ("quiet", "loglevel=3", "lsm=yama")) -> LastingEntry:
    found = place_removal(f"boot:-{word}", files, (), added)
    assert found is not None
    return found


DEFAULT = LastingEntry(
    form="grub.d",
    holds={"kernel": "/boot/vmlinuz-6.2", "entry": ["gnulinux-advanced-1", "gnulinux-6.2-advanced-1"]},
    values={"boot:kernel": "/boot/vmlinuz-6.2"},
    reasons={"boot:kernel": "asked for"},
)


def test_removed_words_and_the_default_kernel_are_read_back() -> None:
    word = placed("boot:transparent_hugepage", "always")
    assert isinstance(word, LastingEntry)
    word = msgspec.structs.replace(word, reasons={"boot:transparent_hugepage": "x"})
    entries = (removal("quiet"), removal("loglevel=3"), word, DEFAULT)
    text = render(entries)
    assert read_kept("grub.d", text) == entries
    lines = [line for line in text.splitlines() if line.startswith(("ktrial_remove ", "GRUB_DEFAULT"))]
    assert lines == [
        "ktrial_remove quiet any",
        "ktrial_remove loglevel=3 only",
        'GRUB_DEFAULT="gnulinux-advanced-1>gnulinux-6.2-advanced-1" # /boot/vmlinuz-6.2',
    ]
    agent = Path(__file__).parents[3] / "agent/src/transact/forms/grub.rs"
    functions = text.partition("removes it.\n")[2].partition("# boot:-quiet")[0]
    assert f'const REMOVES: &str = r#"{functions}"#;' in agent.read_text()


def test_only_what_another_file_adds_is_removed() -> None:
    assert removal("loglevel", files=("loglevel=3",)).holds == {"removes": "loglevel"}
    assert place_removal("boot:-loglevel=4", ("loglevel=3",), (), ["loglevel"]) is None
    added = LastingEntry(form="grub.d", holds={"name": "threadirqs"}, values={"boot:threadirqs": "1"})
    assert place_removal("boot:-threadirqs", (), [added], ()) is not None
    for word in ("ro", "loglevel=4", "qui"):
        with pytest.raises(Refused, match=f"cannot remove {word} from GRUB's configuration"):
            place_removal(f"boot:-{word}", ("quiet", "loglevel=3"), (), ())
    for word in ("", "$x", "a b", "*"):
        with pytest.raises(BadInput, match="does not name a kernel argument to remove"):
            place_removal(f"boot:-{word}", (word,), (), ())


def test_a_word_is_added_or_removed_and_removed_ones_come_first() -> None:
    threads = msgspec.structs.replace(
        DEFAULT, holds={"name": "threadirqs"}, values={"boot:threadirqs": "1"}, reasons={"boot:threadirqs": "x"}
    )
    quiet = removal("quiet")
    text = render([threads, DEFAULT])
    kept: dict[Form, KeptFile] = {"grub.d": KeptFile("grub.d", text, text)}
    (file,) = plan_keep(Plan("x", (), (), ()), kept, {}, Grounds(), KNOBS, (), [quiet]).files
    assert [next(iter(entry.holds)) for entry in file.entries] == ["removes", "name", "kernel"]
    gone = msgspec.structs.replace(quiet, holds={"removes": "threadirqs"}, values={"boot:-threadirqs": "removed"})
    (file,) = plan_keep(Plan("x", (), (), ()), kept, {}, Grounds(), KNOBS, (), [gone]).files
    assert [next(iter(entry.holds)) for entry in file.entries] == ["removes", "kernel"]


@pytest.mark.parametrize(
    "word, added, guarded",
    [
        ("lsm=yama", (), True),
        ("lsm", (), True),
        ("mitigations=auto", (), True),
        ("mitigations=auto", ("mitigations",), False),
        ("mitigations=off", (), False),
        ("nokaslr", (), False),
        ("quiet", (), False),
        ("debugfs=off", (), True),
    ],
)
def test_to_remove_what_protects_the_machine_needs_a_confirmation(
    word: str, added: tuple[str, ...], guarded: bool
) -> None:
    entry = removal(word, files=(word,))
    others = [LastingEntry(form="grub.d", holds={"name": one, "value": "auto,nosmt"}, values={}) for one in added]
    found = find_guarded([FileChange("grub.d", None, "", (entry, *others))], (), KNOBS)
    assert [one.word for one in found] == ([f"-{word}"] if guarded else [])
    name, equals, value = word.partition("=")
    assert may_weaken(name, value if equals else None) == (guarded or bool(added))
    assert not find_guarded([FileChange("grub.d", None, "", (entry,))], [entry], KNOBS)


@pytest.mark.parametrize(
    "entry, line, state, now",
    [
        (removal("quiet"), "a splash -- quiet", "live", "removed"),
        (removal("quiet"), "a quiet", "differs", "quiet"),
        (removal("loglevel=3"), "loglevel=7", "live", "removed"),
        (removal("loglevel=3"), "loglevel=7 loglevel=3", "differs", "loglevel=3"),
        (removal("loglevel", files=("loglevel=3",)), "loglevel=7 loglevel=3", "differs", "loglevel=7 loglevel=3"),
        (DEFAULT, "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.2 ro", "live", "/boot/vmlinuz-6.2"),
        (DEFAULT, "BOOT_IMAGE=/boot/vmlinuz-6.1 ro", "differs", "/boot/vmlinuz-6.1"),
        (DEFAULT, "ro", "differs", None),
    ],
)
def test_whether_a_removal_and_a_default_kernel_are_live(
    entry: LastingEntry, line: str, state: str, now: str | None
) -> None:
    found = look_at_word(entry, line, is_pending=False)
    assert (found.state, found.now) == (state, now)
    waits = look_at_word(entry, line, is_pending=True)
    assert waits.state == ("live" if state == "live" else "pending")


def test_a_removed_word_is_no_rival_unless_a_later_file_adds_it() -> None:
    seven = LastingEntry(form="grub.d", holds={"name": "loglevel", "value": "7"}, values={"boot:loglevel": "7"})
    early = {"/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet loglevel=3"'}
    assert [one.wins for one in rivals_of_words([seven], early)] == [True]
    assert not list(rivals_of_words([seven, removal("loglevel=3"), removal("quiet")], early))
    late = {"/etc/default/grub.d/zz.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT quiet"'}
    assert [(one.address, one.wins) for one in rivals_of_words([removal("quiet")], late)] == [("boot:-quiet", True)]
    for path, line, wins, value in [
        ("/etc/default/grub", "GRUB_DEFAULT=0", False, "0"),
        ("/etc/default/grub.d/zz.cfg", 'GRUB_DEFAULT="1>2"  # mine', True, "1>2"),
        ("/etc/default/grub.d/zz.cfg", "GRUB_DEFAULT='gnulinux-advanced-1>gnulinux-6.2-advanced-1'", False, None),
    ]:
        (rival,) = rivals_of_words([DEFAULT], {path: line})
        assert (rival.address, rival.wins, value in {None, rival.value}) == ("boot:kernel", wins, True)


def test_words_inside_quotes_are_not_words_of_their_own() -> None:
    text = (
        'GRUB_CMDLINE_LINUX="quiet dyndbg=\\"file a +p quiet2 b\\" splash"\n#GRUB_CMDLINE_LINUX="x"\nGRUB_TIMEOUT=5\n'
    )
    found = words_in_grub({"/etc/default/grub": text})
    assert {"quiet", "splash"} <= set(found)
    assert not {"quiet2", "x"} & set(found)


def test_each_removal_that_the_agent_refuses_without_a_confirmation_is_asked_for() -> None:
    for pattern, harmless in boot_words.GUARDED.items():
        for value in (None, "off", "0", "other", *harmless):
            needs = value in harmless or (value not in {"off", "0"} and pattern not in boot_words.WEAKENS)
            assert may_weaken(pattern.replace("*", "x"), value) == needs, (pattern, value)


@pytest.mark.parametrize("word", ["pti=off", "slab-merge", "nosmep", "apparmor=0", "vsyscall=emulate"])
def test_words_that_no_knob_warns_of_can_be_confirmed(word: str) -> None:
    name, equals, value = word.partition("=")
    assert weakens(name, value if equals else None)
    holds = {"name": name, "value": value} if equals else {"name": name}
    entry = LastingEntry(form="grub.d", holds=holds, values={f"boot:{name}": "1"})
    guarded = find_guarded([FileChange("grub.d", None, "", (entry,))], (), KNOBS)
    with pytest.raises(Refused, match=f"cannot use {word}, which weakens the protection of this machine$"):
        confirm_guarded(guarded, (), may_ask=False)
    confirm_guarded(guarded, (name,), may_ask=False)
