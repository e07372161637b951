# SPDX-License-Identifier: Apache-2.0
"""Which of several sysctl files wins."""

from __future__ import annotations

from ktrial.tuning.origin.formats.sysctl_d import Merged, canonical, matches, merge


def places(merged: Merged, key: str) -> list[str]:
    winner = merged.winner(key)
    return [] if winner is None else [winner.assignment.place, *(item.place for item in winner.overrode)]


def test_base_names_decide_the_order_not_directories() -> None:
    merged = merge(
        [
            ("/usr/lib/sysctl.d/99-late.conf", "vm.swappiness = 1\n"),
            ("/etc/sysctl.d/10-early.conf", "vm.swappiness = 2\n"),
        ]
    )
    assert merged.order == ("/etc/sysctl.d/10-early.conf", "/usr/lib/sysctl.d/99-late.conf")
    assert places(merged, "vm.swappiness") == ["/usr/lib/sysctl.d/99-late.conf:1", "/etc/sysctl.d/10-early.conf:1"]


def test_a_file_hides_those_of_its_name_further_back() -> None:
    merged = merge(
        [
            ("/usr/lib/sysctl.d/50-x.conf", "vm.swappiness = 1\n"),
            ("/run/sysctl.d/50-x.conf", "vm.swappiness = 2\n"),
            ("/etc/sysctl.d/50-x.conf", "vm.page-cluster = 3\n"),
        ]
    )
    assert merged.winner("vm.swappiness") is None
    assert {(item.file, item.by) for item in merged.masked} == {
        ("/usr/lib/sysctl.d/50-x.conf", "/etc/sysctl.d/50-x.conf"),
        ("/run/sysctl.d/50-x.conf", "/etc/sysctl.d/50-x.conf"),
    }


def test_a_link_to_dev_null_hides_and_sets_nothing() -> None:
    merged = merge([("/usr/lib/sysctl.d/50-x.conf", "vm.swappiness = 1\n"), ("/etc/sysctl.d/50-x.conf", None)])
    assert merged.winners == ()
    assert [item.by for item in merged.masked] == ["/etc/sysctl.d/50-x.conf"]


def test_sysctl_conf_comes_last_and_other_names_do_not_count() -> None:
    merged = merge(
        [
            ("/etc/sysctl.conf", "vm.swappiness = 7\n"),
            ("/etc/sysctl.d/zz.conf", "vm.swappiness = 8\n"),
            ("/etc/sysctl.d/README", "vm.swappiness = 9\n"),
        ]
    )
    assert places(merged, "vm.swappiness") == ["/etc/sysctl.conf:1", "/etc/sysctl.d/zz.conf:1"]


def test_a_later_line_of_one_file_wins() -> None:
    merged = merge([("/etc/sysctl.d/a.conf", "vm.swappiness = 1\n# x\nvm/swappiness = 2\n")])
    assert places(merged, "vm.swappiness") == ["/etc/sysctl.d/a.conf:3", "/etc/sysctl.d/a.conf:1"]


def test_a_glob_spares_keys_with_lines_of_their_own_and_excluded_ones() -> None:
    text = (
        "net.ipv4.conf.default.rp_filter = 2\nnet.ipv4.conf.*.rp_filter = 2\n-net.ipv4.conf.all.rp_filter\n"
        "net.ipv4.conf.hub0.rp_filter = 1\n"
    )
    merged = merge([("/etc/sysctl.d/a.conf", text), ("/etc/sysctl.d/b.conf", "net.ipv4.conf.e*.rp_filter = 0\n")])
    assert places(merged, "net.ipv4.conf.hub0.rp_filter") == ["/etc/sysctl.d/a.conf:4"]
    assert places(merged, "net.ipv4.conf.default.rp_filter") == ["/etc/sysctl.d/a.conf:1"]
    assert places(merged, "net.ipv4.conf.all.rp_filter") == []
    assert places(merged, "net.ipv4.conf.eth0.rp_filter") == ["/etc/sysctl.d/b.conf:1", "/etc/sysctl.d/a.conf:2"]
    assert places(merged, "net.ipv4.conf.wlan0.rp_filter") == ["/etc/sysctl.d/a.conf:2"]


def test_a_file_that_cannot_be_read_names_each_line_and_the_others_count() -> None:
    merged = merge([("/etc/sysctl.d/a.conf", "what\n# fine\nis this\n"), ("/etc/sysctl.d/b.conf", "vm.swappiness=1\n")])
    assert [(item.file, item.line_number) for item in merged.unread] == [
        ("/etc/sysctl.d/a.conf", 1),
        ("/etc/sysctl.d/a.conf", 3),
    ]
    assert places(merged, "vm.swappiness") == ["/etc/sysctl.d/b.conf:1"]


def test_spelling_of_names() -> None:
    assert canonical("net/ipv4/conf/eth0.100/rp_filter") == "net.ipv4.conf.eth0/100.rp_filter"
    assert canonical("net.ipv4.conf.eth0/100.rp_filter") == "net.ipv4.conf.eth0/100.rp_filter"
    assert canonical("vm/swappiness") == canonical("vm.swappiness") == "vm.swappiness"
    assert matches("net.ipv4.conf.*.rp_filter", "net.ipv4.conf.eth0/100.rp_filter")
    assert not matches("net.*.rp_filter", "net.ipv4.conf.eth0.rp_filter")
