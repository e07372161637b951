# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ktrial.kernels.build.packages import PACKINGS, check_packing, needed_programs, variables_of
from ktrial.kit.errors import Refused


def test_debhelper_is_needed_where_the_trees_rules_call_it(tmp_path: Path) -> None:
    rules = tmp_path / "scripts/package/debian/rules"
    rules.parent.mkdir(parents=True)
    rules.write_text("binary:\n\t$(MAKE) -f $(srctree)/Makefile intdeb-pkg\n")
    assert needed_programs("deb", tmp_path) == PACKINGS["deb"].programs
    rules.write_text("packages = $(shell dh_listpackages)\n")
    assert needed_programs("deb", tmp_path) == (*PACKINGS["deb"].programs, "dh_listpackages")
    assert needed_programs("tar", tmp_path) == PACKINGS["tar"].programs


def test_packages_of_pacman_are_not_made_by_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/Makefile.package").write_text("pacman-pkg:\n")
    monkeypatch.setattr("ktrial.kernels.build.packages.os.geteuid", lambda: 1000)
    check_packing("pacman", tmp_path)
    monkeypatch.setattr("ktrial.kernels.build.packages.os.geteuid", lambda: 0)
    with pytest.raises(Refused, match="does not run as root"):
        check_packing("pacman", tmp_path)
    (tmp_path / "scripts/Makefile.package").write_text("bindeb-pkg:\n")
    with pytest.raises(Refused, match="this tree has no make target pacman-pkg"):
        check_packing("pacman", tmp_path)
    with pytest.raises(Refused, match="this tree has no make target targz-pkg") as error:
        check_packing("tar", tmp_path)
    assert error.value.hint == "use a newer kernel"


def test_packages_of_rpm_are_left_beside_the_build_by_every_tree(tmp_path: Path) -> None:
    """Trees before 6.4 say nothing of a place, and ask for packages that RPM knows of."""
    told = shlex.split(variables_of("rpm", tmp_path)["RPMOPTS"])
    assert told == ["--nodeps", "--define", f"_topdir {tmp_path}/rpmbuild"]
    assert all(pattern.startswith("rpmbuild/RPMS/") for pattern in PACKINGS["rpm"].left)
    assert variables_of("deb", tmp_path) == {"DPKG_FLAGS": "-d"}
    assert "--force" in variables_of("pacman", tmp_path)["MAKEPKGOPTS"].split()
