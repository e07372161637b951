# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import check_exit
from ktrial.kit.errors import BadRun
from ktrial.kit.scrub import Identity, Scrubber
from tests.support import cases

LETTERS = "[b-df-hj-np-t]{10}"

BENCHMARKS = all_benchmarks()


def scrubber(results: tuple[str, ...] = (), **names: tuple[str, ...]) -> Scrubber:
    return Scrubber(Identity(**names), b"salt", results)


def test_a_host_that_is_called_as_a_format_is_no_reason_to_break_it() -> None:
    """Readers know a file by its schema; where a place tells that it is the host, it is still replaced."""
    whole = scrubber(host=("margine",))
    data = b'{"schema": "margine-bench-kernel/1", "hostname": "margine", "label": "margine"}'
    whole.learn(data)
    found = whole.raw(data).decode()
    assert '"schema": "margine-bench-kernel/1"' in found
    assert '"hostname": "host-' in found
    assert "margine" in whole.left


@pytest.mark.parametrize(
    "text, pattern",
    [
        ("on hermes, as alice", "on host-X, as user-X"),
        ("/home/alice/x /home/bob/y", "/home/user-X/x /home/user-X/y"),
        ("/var/home/bob /Users/bob", "/var/home/user-X /Users/user-X"),
        ("hermes.example.org up", "host-X.example.org up"),
        ("hermesian ahermes hermes2 hermes_1", "hermesian ahermes hermes2 hermes_1"),
        ('"hostname": "zeus", zeus', '"hostname": "host-X", zeus'),
        ("      hostname: zeus\n", "      hostname: host-X\n"),
        ("Linux zeus 6.18.0-1-amd64 #1 SMP", "Linux host-X 6.18.0-1-amd64 #1 SMP"),
        ("USER=bob LOGNAME=bob", "USER=user-X LOGNAME=user-X"),
        ("eth0 02:42:AC:11:00:0a up", "eth0 mac-X up"),
        ("enx0242ac11000a", "enxmac-X"),
        ("hid-d8:9a:12:34:56:78-battery", "hid-mac-X-battery"),
        ("pad-d8:9a:12:34:56:7b.", "pad-mac-X."),
        ("power.hid-d8_9a_12_34_56_78-battery.charge", "power.hid-mac-X-battery.charge"),
        ("power.ps_pad_d8_9a_12_34_56_78.charge", "power.ps_pad_mac-X.charge"),
        ("Serial Number: PF3XW1AB", "Serial Number: serial-X"),
        ("Serial Number:    S4EVNF0M123456\n", "Serial Number:    serial-X\n"),  # smartctl
        ("ID_SERIAL_SHORT=S4EVNF0M123456", "ID_SERIAL_SHORT=serial-X"),  # udevadm
        ("E: ID_SERIAL=Samsung_SSD_970_S4EVNF0M123456\n", "E: ID_SERIAL=serial-X\n"),
        ("        serial: S4EVNF0M123456\n", "        serial: serial-X\n"),  # lshw
        ('{"serial":"S4EVNF0M123456"}', '{"serial":"serial-X"}'),  # lsblk -J
        (
            "vid       : 0x144d\nsn        : S4EVNF0M123456   \n",
            "vid       : 0x144d\nsn        : serial-X   \n",
        ),  # nvme
        ("root=UUID=1234abcd-12ab-34cd-56ef-1234567890ab rw", "root=UUID=serial-X rw"),
    ],
)
def test_what_tells_is_replaced(text: str, pattern: str) -> None:
    found = scrubber(host=("hermes",), user=("alice",)).raw(text.encode()).decode()
    assert re.fullmatch(re.escape(pattern).replace("X", LETTERS), found), found


@pytest.mark.parametrize(
    "text",
    [
        "10:11:12:13:14:15",  # six times, as Phoronix joins them
        "00:00:00:00:00:00 ff:ff:ff:ff:ff:ff",
        "ab:cd:ef:01:23:45:67:89:ab:cd",  # a fingerprint
        "ab-cd-ef-01:23:45:67:89:ab:cd:ef",
        "10_11_12_13_14_15 ab_cd_ef_01_23_45_67_89",
        "latency 1e5 0x1f 12.5 ms",
        "serial: 1234567 serial: 1234.5678ms serial = 1.2345e-07 serial: ttyS0 serial: parallel serial: 16550A",
        "on localhost as root in /root",
        '"user": "0.123"',
    ],
)
def test_what_tells_nothing_stays(text: str) -> None:
    names = ("1e5", "12.5", "latency-is-long", "ms", "0x1f", "64", "localhost")
    assert scrubber(host=names, user=names, serial=names).raw(text.encode()).decode() == text


def test_numbers_of_a_document_and_its_names_stay() -> None:
    found = scrubber(("wakeup",), host=("wakeup", "hermes"), user=("1500",))
    document: dict[str, Any] = {
        "benchmark": "hermes",
        "hermes": 1.5,
        "measurements": [{"outcome": "hermes", "value": 1500, "unit": "s", "original": "1500 hermes"}],
        "environment": {"HOME": "/home/bob", "USER": "bob", "HOSTNAME": "zeus"},
        "attributes": {"user": "0.25", "hostname": "zeus"},
        "notes": ["wakeup by bob", "on zeus"],
    }
    found.learn(document)
    clean = found.document(document)
    assert clean["benchmark"] == "hermes"
    assert clean["hermes"] == 1.5
    assert clean["measurements"][0]["value"] == 1500
    assert re.fullmatch(f"1500 host-{LETTERS}", clean["measurements"][0]["original"])
    assert clean["attributes"]["user"] == "0.25"
    assert clean["attributes"]["hostname"] == clean["environment"]["HOSTNAME"]
    assert re.fullmatch(f"wakeup by user-{LETTERS}|wakeup by bob", clean["notes"][0])
    assert re.fullmatch(f"on host-{LETTERS}", clean["notes"][1])
    assert found.left >= {"wakeup", "1500"}
    assert "bob" not in clean["environment"]["HOME"]


def test_addresses_in_keys_are_replaced_and_names_of_raw_files_stay() -> None:
    name = "power.hid-d8_9a_12_34_56_78-battery.charge"
    clean = scrubber().document({"telemetry": {"columns": {name: {"n": 1}}}, "raw": {f"files/{name}": {"sha256": "0"}}})
    (shown,) = clean["telemetry"]["columns"]
    assert re.fullmatch(rf"power\.hid-mac-{LETTERS}-battery\.charge", shown)
    assert clean["telemetry"]["columns"][shown] == {"n": 1}
    assert list(clean["raw"]) == [f"files/{name}"]


def test_a_name_that_one_place_gives_away_is_found_everywhere() -> None:
    found = scrubber()
    found.learn(b"      hostname: olympus7\n")
    assert b"olympus7" not in found.raw(b"started on olympus7 at once")
    assert found.replaced["host"] == 1


@pytest.mark.parametrize(
    "table",
    [
        b"Hostname,user,time_ms\nsecretbox,alicesmith,12\n",
        b"\xef\xbb\xbfhostname;user;time (a, b)\r\nsecretbox;alicesmith;12\r\n",
        b'\n"a, b",hostname,user\n"x, y",secretbox,alicesmith\n',
        b"note\thostname\tuser\n\xc3\x85\tsecretbox\talicesmith\n",
    ],
)
def test_names_in_the_columns_of_a_table_are_replaced(table: bytes) -> None:
    scrubber = Scrubber(Identity(), b"salt")
    scrubber.learn(table)
    assert b"secretbox" not in scrubber.raw(table)
    assert b"alicesmith" not in scrubber.raw(table)
    assert scrubber.raw(b"time_ms") == b"time_ms"
    times = Scrubber(Identity(), b"salt")
    times.learn(b"command,mean,user\nmake,1.5,0.7\n")
    assert not times.left


def test_the_same_is_the_same_and_nothing_is_replaced_twice() -> None:
    one, two = scrubber(host=("hermes",)), scrubber(host=("hermes",))
    first = one.raw(b"hermes, Hermes and /home/carol")
    assert first == two.raw(b"hermes, Hermes and /home/carol")
    assert first.split(b",")[0] == first.split(b" ")[1]
    assert scrubber(host=("hermes",)).raw(first) == first
    other = Scrubber(Identity(host=("hermes",)), b"another secret")
    assert other.raw(b"hermes") != one.raw(b"hermes")


def test_what_is_no_text_keeps_its_length() -> None:
    data = b"\0\1\2hermes\0\xff on-hermes"
    found = scrubber(host=("hermes",)).raw(data)
    assert len(found) == len(data)
    assert b"hermes" not in found


@given(st.binary(max_size=400), st.sampled_from(["hermes", "a", "12", "x.y", "0:0", "é"]))
def test_digits_are_never_changed(data: bytes, name: str) -> None:
    """Whatever stands there: a name without digits takes none away, and no placeholder brings one."""
    found = scrubber(host=(name,)).raw(b"hermes " + data.replace(b":", b" ").replace(b"/", b" ").replace(b"=", b" "))
    assert re.sub(rb"\D", b"", found) == re.sub(rb"\D", b"", b" " + data)


@pytest.mark.parametrize("case", cases.CASES, ids=cases.name)
def test_no_number_of_a_recorded_output_changes(case: Path) -> None:
    """Names as a real machine has them are taken out of each recorded output; what it measures stays."""
    wanted = cases.expected(case)
    raw = cases.raw_output(case)
    benchmark = BENCHMARKS[wanted.benchmark]
    parameters = {**benchmark.parameters, **wanted.parameters}
    found = scrubber(host=("hermes7", "ubuntu"), user=("carol", "user"), serial=("0", "123456", "S4EWNX0R"))
    for data in (raw.stdout, raw.stderr, *raw.files.values()):
        found.learn(data)
    clean = msgspec.structs.replace(
        raw,
        stdout=found.raw(raw.stdout),
        stderr=found.raw(raw.stderr),
        files={name: found.raw(data) for name, data in raw.files.items()},
    )

    def measured(one: Any) -> Any:
        try:
            check_exit(one)
            return benchmark.parse(one, parameters).measurements
        except BadRun:
            return None

    assert measured(clean) == measured(raw)


def test_the_fact_that_tells_machines_apart_is_replaced_the_same_way_everywhere() -> None:
    found = {"machine": {"os.machine": {"value": "c6c4e62448a1793b"}, "os.id": {"value": "debian"}}}
    scrubber = Scrubber(Identity(), b"salt")
    scrubber.learn(found)
    clean = scrubber.document(found)
    placeholder = clean["machine"]["os.machine"]["value"]
    assert placeholder.startswith("serial-")
    assert clean["machine"]["os.id"] == {"value": "debian"}
    assert scrubber.raw(b"on c6c4e62448a1793b") == f"on {placeholder}".encode()
    assert scrubber.document({"os.machine": {"absent": "no file"}}) == {"os.machine": {"absent": "no file"}}
