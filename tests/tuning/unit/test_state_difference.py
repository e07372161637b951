# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ktrial.tuning.state.diff import Declaration, ValueDifference, difference
from ktrial.tuning.state.state import MachineState, StateValue

PATHS = st.sampled_from(["/proc/sys/vm/a", "/proc/sys/vm/b", "/proc/sys/net/x/c", "/proc/sys/net/x/d", "/sys/e"])
FILES = st.dictionaries(PATHS, st.sampled_from(["0", "1", "[a] b"]))


def state(files: dict[str, str | StateValue] | None = None, **parts: Any) -> MachineState:
    given_files = {
        path: value if isinstance(value, StateValue) else StateValue(text=value)
        for path, value in (files or {}).items()
    }
    return MachineState(**{"facts": {}, "knobs": {}, "files": given_files, **parts})


def sides(found: tuple[ValueDifference, ...]) -> list[tuple[str, str | None, str | None]]:
    return [(one.name, one.before, one.after) for one in found]


@given(FILES)
def test_a_state_does_not_differ_from_itself(files: dict[str, str]) -> None:
    found = difference(state(dict(files)), state(dict(files)))
    assert (found.undeclared, found.declared, found.unclear) == ((), (), ())


@given(FILES, FILES)
def test_every_file_that_differs_is_named_and_the_other_way_round_is_the_mirror(
    left: dict[str, str], right: dict[str, str]
) -> None:
    found = difference(state(dict(left)), state(dict(right))).undeclared
    places = {one.path for one in found}
    for path in {*left, *right}:
        differs = left.get(path) != right.get(path)
        named = path in places or any(path.startswith(f"{place}/") for place in places)
        assert named == differs
    mirror = difference(state(dict(right)), state(dict(left))).undeclared
    assert {(one.name, one.after, one.before) for one in mirror} == {*sides(found)}


def test_names_are_those_that_people_use() -> None:
    before = {
        "/proc/sys/vm/swappiness": "60",
        "/proc/sys/net/ipv4/conf/eth0.7/rp_filter": "0",
        "/proc/sys/kernel/odd": "a",
        "/sys/module/zswap/parameters/enabled": "N",
        "/sys/module/nvidia/version": "550",
        "/sys/block/sda/queue/scheduler": "[none] bfq",
    }
    after = dict.fromkeys(before, "1") | {"/sys/block/sda/queue/scheduler": "none [bfq]"}
    knobs = {"vm.swappiness": "/proc/sys/vm/swappiness", "queue:scheduler@sda": "/sys/block/sda/queue/scheduler"}
    found = difference(state({**before}, knobs=knobs), state({**after}, knobs=knobs)).undeclared
    assert {(one.name, one.kind, one.before, one.after) for one in found} == {
        ("vm.swappiness", "knob", "60", "1"),
        ("net.ipv4.conf.eth0/7.rp_filter", "sysctl", "0", "1"),
        ("kernel.odd", "sysctl", "a", "1"),
        ("module:zswap.enabled", "module", "N", "1"),
        ("version of module nvidia", "module", "550", "1"),
        ("queue:scheduler@sda", "knob", "none", "bfq"),
    }


def test_other_choices_are_a_difference_too() -> None:
    found = difference(state({"/sys/x": "[none] bfq"}), state({"/sys/x": "[none] bfq kyber"})).undeclared
    assert sides(found) == [("/sys/x", "[none] bfq", "[none] bfq kyber")]


def test_features_are_told_one_by_one() -> None:
    path = "/sys/kernel/debug/sched/features"
    knobs = {"feature:NEXT_BUDDY": path, "feature:PLACE_LAG": path}
    before = state({path: "PLACE_LAG NO_NEXT_BUDDY NO_NEW"}, knobs=knobs)
    after = state({path: "PLACE_LAG NEXT_BUDDY NEW"}, knobs=knobs)
    found = difference(before, after, [Declaration(by="p", knob="feature:NEXT_BUDDY")])
    assert sides(found.declared) == [("feature:NEXT_BUDDY", "NO_NEXT_BUDDY", "NEXT_BUDDY")]
    assert sides(found.undeclared) == [(f"{path} NEW", "NO_NEW", "NEW")]


def test_a_file_of_many_switches_that_cannot_be_read_goes_by_its_own_name() -> None:
    path = "/sys/kernel/debug/sched/features"
    knobs = {"feature:NEXT_BUDDY": path, "feature:PLACE_LAG": path}
    closed = StateValue(unreadable="Operation not permitted")
    found = difference(state({path: closed}, knobs=knobs), state({path: closed}, knobs=knobs))
    assert [one.name for one in found.unclear] == [path]


def test_what_came_as_a_whole_is_told_once() -> None:
    base = {"/proc/sys/net/ipv4/conf/lo/a": "0", "/sys/module/ext4/parameters/a": "1"}
    more = {
        "/proc/sys/net/ipv4/conf/veth0/a": "0",
        "/proc/sys/net/ipv4/conf/veth0/b": "0",
        "/proc/sys/net/ipv4/conf/lo/b": "7",
        "/sys/module/zram/parameters/n": "1",
    }
    modules = [{"kernel.modules": StateValue(words=words)} for words in (("ext4",), ("ext4", "zram"))]
    found = difference(state({**base}, facts=modules[0]), state({**base, **more}, facts=modules[1])).undeclared
    assert sides(found) == [
        ("kernel.modules zram", None, "there"),
        ("net.ipv4.conf.lo.b", None, "7"),
        ("net.ipv4.conf.veth0", None, "2 values"),
    ]


def test_what_one_side_could_not_see_is_not_a_difference() -> None:
    hidden = {"/sys/kernel/debug/": "only root can see debugfs"}
    closed = StateValue(unreadable="Permission denied")
    before = state({"/proc/sys/a/b": closed}, hidden=hidden, left_out={"/proc/sys/a/c": "counts"})
    after = state({"/proc/sys/a/b": "1", "/sys/kernel/debug/sched/x": "1", "/proc/sys/a/c": "2"})
    found = difference(before, after)
    assert found.undeclared == found.declared == ()
    assert [(one.name, one.why) for one in found.unclear] == [
        ("a.b", "Permission denied"),
        ("1 file below /sys/kernel/debug/", "only root can see debugfs"),
    ]
    assert found.left_out == {"/proc/sys/a/c": "counts"}


def test_the_command_line_is_compared_by_parameter() -> None:
    before = {"kernel.command_line": StateValue(text='quiet a=1 b="x y" console=tty0 console=ttyS0')}
    after = {"kernel.command_line": StateValue(text='a=2 b="x y" console=ttyS0 console=tty0')}
    found = difference(state(facts=before), state(facts=after)).undeclared
    assert sides(found) == [
        ("boot:a", "1", "2"),
        ("boot:console", "tty0 ttyS0", "ttyS0 tty0"),
        ("boot:quiet", "(given)", None),
    ]


def test_facts_that_differ_or_could_not_be_told() -> None:
    before = {"kernel.scheduler": StateValue(text="EEVDF"), "kernel.lockdown": StateValue(unreadable="why")}
    after = {"kernel.scheduler": StateValue(absent="gone"), "kernel.lockdown": StateValue(text="none")}
    found = difference(state(facts=before), state(facts=after))
    assert sides(found.undeclared) == [("kernel.scheduler", "EEVDF", None)]
    assert [(one.name, one.why) for one in found.unclear] == [("kernel.lockdown", "why")]


def test_declared_by_knob_instance_pattern_or_path() -> None:
    def covers(declaration: Declaration, name: str, path: str = "/p") -> bool:
        one = ValueDifference(name=name, kind="knob", path=path, before="0", after="1")
        return declaration.covers(one)

    assert covers(Declaration(by="x", knob="vm.swappiness"), "vm.swappiness")
    assert not covers(Declaration(by="x", knob="vm.swappiness"), "vm.swappiness2")
    assert covers(Declaration(by="x", knob="queue:scheduler"), "queue:scheduler@sda")
    assert covers(Declaration(by="x", knob="queue:scheduler@sd*"), "queue:scheduler@sda")
    assert not covers(Declaration(by="x", knob="queue:scheduler@nvme*"), "queue:scheduler@sda")
    assert covers(Declaration(by="x", knob="queue:scheduler@[rotational=false]"), "queue:scheduler@sda")
    assert covers(Declaration(by="x", path="/p"), "anything")
    assert not covers(Declaration(by="x", path="/q"), "anything")
    assert covers(Declaration(by="x", path="/p"), "anything", "/p/below")
    assert not covers(Declaration(by="x", path="/p"), "anything", "/pq")


def test_a_value_that_the_kernel_may_move_has_a_note() -> None:
    found = difference(state({"/proc/sys/k": "1"}), state({"/proc/sys/k": "2"}), (), {"/proc/sys/k": "moves"})
    assert [one.note for one in found.undeclared] == ["moves"]
