# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from ktrial.kernels.packages import PACKINGS, needed_programs


def test_debhelper_is_needed_where_the_trees_rules_call_it(tmp_path: Path) -> None:
    rules = tmp_path / "scripts/package/debian/rules"
    rules.parent.mkdir(parents=True)
    rules.write_text("binary:\n\t$(MAKE) -f $(srctree)/Makefile intdeb-pkg\n")
    assert needed_programs("deb", tmp_path) == PACKINGS["deb"].programs
    rules.write_text("packages = $(shell dh_listpackages)\n")
    assert needed_programs("deb", tmp_path) == (*PACKINGS["deb"].programs, "dh_listpackages")
    assert needed_programs("tar", tmp_path) == PACKINGS["tar"].programs
