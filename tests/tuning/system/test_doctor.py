# SPDX-License-Identifier: Apache-2.0
"""Doctor, why and import through the command line and the real agent on a fake machine."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from ktrial import __version__
from tests.support.tree import FakeRoot


def test_doctor_names_who_set_what(root: FakeRoot) -> None:
    root.write("/etc/sysctl.d/99-mine.conf", "vm.swappiness = 10\n")
    root.write("/proc/sys/vm/swappiness", "10\n")
    ran = root.run("doctor")
    assert ran.status == 0
    assert "/etc/sysctl.d/99-mine.conf:1" in ran.out
    answer = root.run("doctor", "--json").json
    assert answer["schema"] == "ktrial.doctor/1"
    assert [item["address"] for item in answer["differ"]] == ["vm.swappiness"]


def test_why_follows_ktrials_own_change_and_its_end(root: FakeRoot) -> None:
    root.write("/usr/lib/sysctl.d/50-vendor.conf", "vm.swappiness = 30\n")
    root.write("/proc/sys/vm/swappiness", "30\n")
    assert root.run("why", "vm.swappiness", "--json").json["origins"][0]["set_by"]["source"] == "sysctl.d"
    assert root.run("apply", "vm.swappiness=10", "--yes").status == 0
    (origin,) = root.run("why", "vm.swappiness", "--json").json["origins"]
    assert (origin["set_by"]["source"], origin["overrode"][0]["source"]) == ("ktrial", "sysctl.d")
    text = root.run("why", "vm.swappiness").out
    assert "ktrial, transaction 1" in text
    assert "/usr/lib/sysctl.d/50-vendor.conf:1 (= 30)" in text
    assert root.run("revert").status == 0
    (origin,) = root.run("why", "vm.swappiness", "--json").json["origins"]
    assert origin["set_by"]["place"] == "/usr/lib/sysctl.d/50-vendor.conf:1"


def test_why_suggests_near_names(root: FakeRoot) -> None:
    ran = root.run("why", "vm.swapiness")
    assert (ran.status, ran.out) == (2, "")
    assert "did you mean vm.swappiness?" in ran.err


def test_instances_that_agree_share_a_block_and_others_are_named(root: FakeRoot) -> None:
    for name, shown in (("sda", "[none] bfq"), ("sdb", "[none] bfq"), ("sdc", "none [bfq]")):
        root.write(f"/sys/block/{name}/queue/scheduler", shown + "\n")
    text = root.run("why", "queue:scheduler").out
    assert "queue:scheduler@sda,sdb = none" in text
    assert "queue:scheduler@sdc = bfq" in text
    assert "queue:scheduler@sdc" not in root.run("why", "queue:scheduler@sd[ab]").out
    missing = root.run("why", "queue:scheduler@nvme0n1")
    assert (missing.status, missing.out) == (2, "")
    assert "use one of: sda, sdb, sdc" in missing.err


def test_an_imported_profile_can_be_planned(root: FakeRoot, tmp_path: Path) -> None:
    script = tmp_path / "tweak.sh"
    script.write_text("#!/bin/sh\nsysctl -w vm.swappiness=10 vm.page_cluster=0\nfrobnicate\n")
    ran = root.run("profile", "import", str(script))
    assert ran.status == 0
    assert 'knob = "vm.swappiness"' in ran.out
    assert f"{script}:2: not in the catalog: unknown knob vm.page_cluster" in ran.err
    assert f"{script}:3: not understood: frobnicate" in ran.err
    output = tmp_path / "mine.toml"
    assert root.run("profile", "import", str(script), "-o", str(output)).status == 0
    assert output.read_text() == ran.out
    again = root.run("profile", "import", str(script), "-o", str(output))
    assert (again.status, "file exists" in again.err) == (2, True)
    assert root.run("profile", "import", str(script), "-o", str(output), "--force").status == 0


@pytest.mark.parametrize("text", ["", "hello\n", "vm.nonsense = 1\n"])
def test_nothing_to_import_says_what_to_do(root: FakeRoot, tmp_path: Path, text: str) -> None:
    file = tmp_path / "some.txt"
    file.write_text(text)
    ran = root.run("profile", "import", str(file))
    assert (ran.status, ran.out) == (2, "")
    assert str(file) in ran.err
    assert "next:" in ran.err


def test_a_missing_file_is_said(root: FakeRoot, tmp_path: Path) -> None:
    ran = root.run("profile", "import", str(tmp_path / "nowhere"))
    assert (ran.status, "no such file" in ran.err) == (2, True)


def test_a_bundle_for_a_bug_report_names_nobody(root: FakeRoot, tmp_path: Path) -> None:
    root.write("/proc/cmdline", "root=UUID=1234abcd-12ab-34cd-56ef-1234567890ab hostname=zaphods-box quiet\n")
    root.write("/usr/lib/sysctl.d/50-vendor.conf", "# of zaphods-box, for /home/zaphod/games\nvm.swappiness = 10\n")
    root.write("/proc/sys/vm/swappiness", "10\n")
    assert root.run("apply", "vm.page-cluster=0", "--yes").status == 0
    file = tmp_path / "report.tar.gz"
    ran = root.run("doctor", "--bundle", str(file), "--json")
    assert ran.status == 0, ran.err
    assert f"look through the bundle before you send it: `tar -xOf {file} | less`" in ran.err
    with tarfile.open(file) as archive:
        members = {one.name.rpartition("/")[2]: archive.extractfile(one) for one in archive.getmembers()}
        texts = {name: stream.read().decode() for name, stream in members.items() if stream is not None}
    assert list(texts) == ran.json["members"]
    assert sum(ran.json["replaced"].values()) >= 2
    assert [name for name, text in texts.items() if "1234abcd" in text or "zaphod" in text] == []
    assert "root=UUID=serial-" in texts["facts.json"]
    assert json.loads(texts["versions.json"])["ktrial"] == __version__
    assert [one["title"] for one in json.loads(texts["journal.json"])["transactions"]] == ["vm.page-cluster=0"]
    assert "vm.swappiness" in texts["doctor.txt"]
    refused = root.run("doctor", "--bundle", str(file))
    assert (refused.status, "file exists" in refused.err) == (2, True)
    assert root.run("doctor", "--bundle", str(file), "--force").status == 0
