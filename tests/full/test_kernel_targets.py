# SPDX-License-Identifier: Apache-2.0
"""Every level and some microarchitectures, in both real trees, by both compilers: minutes of Kconfig."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.kernels.build.probe_build import ProbeBuild
from ktrial.kernels.build.tree import SourceTree
from ktrial.kernels.uarch.compilers import Compilers
from ktrial.kernels.uarch.target_files import load_targets
from ktrial.kernels.uarch.targets import find_target
from ktrial.kernels.uarch.verify import verify_target
from ktrial.kit.errors import Refused
from tests.guests.system.sources import copy_of

TARGETS = load_targets()
WANTED = ("x86-64", "x86-64-v2", "x86-64-v3", "bdver2", "haswell", "znver3")
pytestmark = pytest.mark.timeout(3600)


@pytest.mark.parametrize("version", ["6.1", "6.12"])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_targets_of_a_real_tree(version: str, cc: str, tmp_path: Path) -> None:
    tree = SourceTree(copy_of(version, tmp_path / "linux"), TARGETS)
    tree.write(tree.patch())
    (compiler,) = Compilers(tmp_path / "answers", TARGETS, pytest.fail).find([cc])
    with ProbeBuild(tree.folder, cc) as build:
        for name in WANTED:
            found = verify_target(find_target(name, TARGETS), TARGETS, tree.survey(), compiler, build, None)
            assert found.march == f"-march={name}"
        with pytest.raises(Refused, match="does not accept -march=diamondrapids"):
            verify_target(find_target("diamondrapids", TARGETS), TARGETS, tree.survey(), compiler, build, None)


def test_a_configuration_of_ones_own_keeps_all_but_the_target(tmp_path: Path) -> None:
    tree = SourceTree(copy_of("6.12", tmp_path / "linux"), TARGETS)
    tree.write(tree.patch())
    base = tmp_path / "base.config"
    base.write_text("CONFIG_64BIT=y\nCONFIG_MK8=y\n# CONFIG_GENERIC_CPU is not set\nCONFIG_HZ_1000=y\nCONFIG_SMP=y\n")
    with ProbeBuild(tree.folder, "gcc", base) as build:
        config = build.configure("CONFIG_MZEN3=y\n", frozenset(target.symbol for target in TARGETS))
        assert (config.get("MZEN3"), config.get("MK8"), config.get("HZ")) == ("y", None, "1000")
