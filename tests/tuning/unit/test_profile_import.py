# SPDX-License-Identifier: Apache-2.0
"""Foreign text becomes a profile that the loader takes, and all that does not fit is named."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from ktrial.kit.errors import BadInput
from ktrial.kit.toml_files import parse_toml
from ktrial.tuning.catalog.loader import check_profile, load_catalog
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.profile import Profile
from ktrial.tuning.origin.import_profile import import_profile

GOLDEN = Path(__file__).parents[2] / "golden" / "formats_foreign"
TEXTS = sorted(str(path.relative_to(GOLDEN)) for path in GOLDEN.glob("*/*/input"))


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def settings(text: str, catalog: Catalog, file: str = "-") -> list[tuple[str, Any]]:
    return [(item.knob, item.value) for item in import_profile(text.encode(), file, catalog).profile.setting]


@pytest.mark.parametrize(
    "file,text,wanted",
    [
        ("a.conf", "vm.swappiness = 10\n", [("vm.swappiness", 10)]),
        ("-", "sudo sysctl -w vm.swappiness=10\n", [("vm.swappiness", 10)]),
        ("-", "echo 1 > /proc/sys/vm/page-cluster\n", [("vm.page-cluster", 1)]),
        ("-", "echo none | tee /sys/block/nvme0n1/queue/scheduler\n", [("queue:scheduler@nvme0n1", "none")]),
        ("-", "echo none > /sys/block/*/queue/scheduler\n", [("queue:scheduler@*", "none")]),
        (
            "/etc/tmpfiles.d/a.conf",
            "w /sys/fs/cgroup/user.slice/user-1000.slice/memory.high - - - - 1073741824\n",
            [("cgroup:memory.high@user.slice/user-1000.slice", "1073741824")],
        ),
        ("-", "for d in /sys/block/sd*; do echo 64 > $d/queue/nr_requests; done\n", [("queue:nr_requests@sd*", 64)]),
        (
            "-",
            "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor\n",
            [("cpufreq:scaling_governor@*", "performance")],
        ),
        (
            "-",
            "echo NO_NEXT_BUDDY > /sys/kernel/debug/sched_features\n",
            [("feature:NEXT_BUDDY", False)],
        ),
        (
            "x.rules",
            'SUBSYSTEM=="block", KERNEL=="sd*|vd*", ATTR{queue/scheduler}="bfq"\n',
            [("queue:scheduler@sd*", "bfq"), ("queue:scheduler@vd*", "bfq")],
        ),
        (
            "-",
            "quiet root=UUID=1 nohz_full=1-3 nvme-core.default-ps-max-latency-us=0 nvme_core.io_timeout=9 threadirqs\n",
            [
                ("boot:nohz_full", "1-3"),
                ("boot:nvme_core.default_ps_max_latency_us", 0),
                ("module:nvme_core.io_timeout", 9),
                ("boot:threadirqs", True),
            ],
        ),
        (
            "/etc/modprobe.d/x.conf",
            "options nvme io_queue_depth=1\noptions nvme-core io_timeout=30\n",
            [("module:nvme_core.io_timeout", 30)],
        ),
        (
            "tuned.conf",
            "[vm]\ntransparent_hugepages=never\n[disk]\nreadahead=4096\n",
            [("thp:enabled", "never"), ("queue:read_ahead_kb@*", 4096)],
        ),
        (
            "zram-generator.conf",
            "[zram0]\nzram-size = ram / 2\ncompression-algorithm = zstd\n",
            [
                ("zram:disksize@zram0", {"compute": "share", "of": "memory.total", "percent": 50}),
                ("zram:comp_algorithm@zram0", "zstd"),
            ],
        ),
        ("-", "kernel.sched_latency_ns = 4000000\n", [("sched:latency_ns", 4000000)]),
    ],
)
def test_what_becomes_of_it(catalog: Catalog, file: str, text: str, wanted: list[tuple[str, Any]]) -> None:
    assert settings(text, catalog, file) == wanted


@pytest.mark.parametrize("case", sorted(GOLDEN.glob("*/*/input")), ids=lambda path: "/".join(path.parts[-3:-1]))
def test_every_golden_text_loads_or_says_why_not(catalog: Catalog, case: Path) -> None:
    try:
        imported = import_profile(case.read_bytes(), str(case), catalog)
    except BadInput as error:
        assert error.hint
        assert case.parent.name in {"unclosed-quote", "malformed"} or case.parts[-3] in {"tmpfiles.d", "modprobe.d"}
        return
    loaded = parse_toml(imported.toml, "x.toml", Profile)
    assert loaded == imported.profile
    check_profile(loaded, Catalog(catalog.knobs, {loaded.name: loaded}, catalog.kinds, catalog.sources))


def test_a_list_that_mixes_formats_loses_no_line(catalog: Catalog) -> None:
    lines = (
        "vm.swappiness=10",
        "vm.dirty_ratio = 5",
        "echo never > /sys/kernel/mm/transparent_hugepage/enabled",
        "mitigations=off",
    )
    imported = import_profile("\n".join(lines).encode(), "tweaks.txt", catalog)
    assert (imported.sniffed.format, imported.unread, imported.unknown) == ("list", (), ())
    names = [one.knob for one in imported.profile.setting]
    assert names == ["vm.swappiness", "vm.dirty_ratio", "thp:enabled", "boot:mitigations"]


def test_unknown_knobs_come_with_near_names(catalog: Catalog) -> None:
    imported = import_profile(b"vm.page_cluster = 0\nvm.swappiness = 1\nvm.nonsense = 3\n", "x.conf", catalog)
    assert [item.line_number for item in imported.unknown] == [1, 3]
    assert "did you mean vm.page-cluster?" in imported.unknown[0].reason
    assert "unknown knob vm.nonsense" in imported.unknown[1].reason


def test_a_value_that_the_knob_does_not_take_is_named(catalog: Catalog) -> None:
    imported = import_profile(b"vm.swappiness = 1000\nvm.page-cluster = 0\n", "x.conf", catalog)
    assert [(item.line_number, "out of range" in item.reason) for item in imported.unread] == [(1, True)]


BLOG = b"""My desktop after two evenings.

- vm.swappiness = 10
- nohz_full=1-15 rcu_nocbs=1-15
- mitigations=off threadirqs
- BORE kernel from the AUR
- scx_lavd on top of it
- it feels much snappier
"""


def test_of_a_list_with_prose_every_line_is_read_named_or_counted(catalog: Catalog) -> None:
    imported = import_profile(BLOG, "blog.txt", catalog)
    assert [(item.knob, item.value) for item in imported.profile.setting] == [
        ("vm.swappiness", 10),
        ("boot:nohz_full", "1-15"),
        ("boot:rcu_nocbs", "1-15"),
        ("boot:mitigations", "off"),
        ("boot:threadirqs", True),
    ]
    assert [(item.line_number, item.reason.split(",")[0]) for item in imported.unread] == [
        (6, "names BORE"),
        (7, "names scx_lavd"),
    ]
    assert imported.notes[-1] == "ignored 2 lines without a setting: 1, 8"


def test_settings_by_less_than_their_name(catalog: Catalog) -> None:
    text = b"""### Block
`iostats: 1 --> 0`: Nobody looks at them.
readahead: 128 --> 32
### Scheduler
Next Buddy
No TTWU Queue
### Governor
hispeed_load: 99 --> 90
cfq / bfq: low latency off
vm.swappiness: 60 --> 100
"""
    imported = import_profile(text, "README.md", catalog)
    assert [(item.knob, item.value) for item in imported.profile.setting] == [
        ("queue:iostats@*", False),
        ("queue:read_ahead_kb@*", 32),
        ("feature:NEXT_BUDDY", True),
        ("feature:TTWU_QUEUE", False),
        ("vm.swappiness", 100),
    ]
    assert [item.line_number for item in imported.unread] == [8, 9]
    assert imported.notes[-1] == "ignored 3 lines without a setting: 1, 4, 7"


def test_twice_the_same_knob_is_said_and_the_later_counts(catalog: Catalog) -> None:
    imported = import_profile(
        b"vm.swappiness = 1\nvm.page-cluster = 0\nvm.swappiness = 2\nvm.page-cluster=0\n", "x.conf", catalog
    )
    assert [(item.knob, item.value) for item in imported.profile.setting] == [
        ("vm.swappiness", 2),
        ("vm.page-cluster", 0),
    ]
    assert imported.notes == (
        "vm.swappiness is set twice: 1 (line 1), then 2 (line 3); the later one is used",
        "vm.page-cluster is set twice to the same value: lines 2 and 4",
    )


def test_a_pair_that_excludes_each_other_is_said(catalog: Catalog) -> None:
    imported = import_profile(b"vm.dirty_ratio = 10\nvm.dirty_bytes = 1000000\n", "x.conf", catalog)
    assert imported.notes == (
        "vm.dirty_bytes and vm.dirty_ratio exclude each other: the kernel clears one when the other is written",
    )


def test_rotational_becomes_a_condition(catalog: Catalog) -> None:
    rule = b'SUBSYSTEM=="block", ATTR{queue/rotational}=="0", ATTR{queue/scheduler}="none"\n'
    (setting,) = import_profile(rule, "x.rules", catalog).profile.setting
    assert (setting.knob, setting.when) == ("queue:scheduler@*", "device.rotational == false")


def test_conditions_of_scripts_are_kept_in_the_reason(catalog: Catalog) -> None:
    (setting,) = import_profile(b"[ -f /x ] && sysctl -w vm.swappiness=1\n", "x.sh", catalog).profile.setting
    assert setting.why == "x.sh:1, there only if [ -f /x ]"


def test_text_with_quotes_and_control_characters_is_still_toml(catalog: Catalog) -> None:
    (setting,) = import_profile(
        b'[ "$a\\b" = "\x07\xe2\x80\xa6" ] && sysctl -w vm.swappiness=1\n', "x.sh", catalog
    ).profile.setting
    assert setting.why is not None
    assert "…" in setting.why


@pytest.mark.parametrize("text", ["", "hello\n", "vm.nonsense = 1\n", "quiet splash\n", "vm.swappiness = 5000\n"])
def test_nothing_usable_is_an_error_with_the_next_step(catalog: Catalog, text: str) -> None:
    with pytest.raises(BadInput) as caught:
        import_profile(text.encode(), "some.file", catalog)
    assert "some.file" in caught.value.message
    assert caught.value.hint


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(name=strategies.sampled_from(TEXTS), seed=strategies.integers(0, 2**32))
def test_mutated_texts_load_or_are_refused(catalog: Catalog, name: str, seed: int) -> None:
    chance = Random(seed)
    data = bytearray((GOLDEN / name).read_bytes())
    for _ in range(chance.randint(0, 8)):
        at = chance.randrange(len(data))
        data[at : at + chance.randrange(6)] = chance.choice(
            [b"", b"\n", b"=", b'"', b"\\", b"9" * 30, b"-1", b"\xff", b"*", b"@"]
        )
        data = data or bytearray(b"x")
    try:
        imported = import_profile(bytes(data), "-", catalog)
    except BadInput as error:
        assert error.hint
        return
    assert parse_toml(imported.toml, "x.toml", Profile) == imported.profile
