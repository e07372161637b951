# SPDX-License-Identifier: Apache-2.0
"""Small kernels of Debian's sources by both compilers: built, built again elsewhere, patched, booted, packed.

They are much smaller than what the fragment `guest` makes, which takes ten minutes, and have debug information.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from ktrial.bench.text import duration
from ktrial.cli.main import main
from tests.guests.system.sources import BUILDS, whole_archive
from tests.support.small_kernel import DEBUG, write_fragment
from tests.support.tree import Ran

pytestmark = [pytest.mark.timeout(3600), pytest.mark.xdist_group("kernel-builds")]


class Lab:
    """Builds in folders of its own, with a cache that was empty at the beginning."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fragment = write_fragment(folder / "small.config", *DEBUG)

    def run(self, *argv: str) -> Ran:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.folder / "state"))
            patch.setenv("XDG_CACHE_HOME", str(BUILDS))
            patch.setenv("CCACHE_DIR", str(self.folder / "ccache"))
            out, err = io.StringIO(), io.StringIO()
            return Ran(main(["kernel", *argv], out, err), out.getvalue(), err.getvalue())

    def build_words(self, name: str, *words: str) -> tuple[str, ...]:
        small = ("--config", "tinyconfig", "--fragment", str(self.fragment))
        return ("build", str(whole_archive()), *small, *words, "-o", str(self.folder / name))

    def build(self, name: str, *words: str) -> dict[str, Any]:
        return self.json(*self.build_words(name, *words))

    def json(self, verb: str, *words: str) -> dict[str, Any]:
        ran = self.run(verb, "--json", *words)
        assert ran.status == 0, ran.err
        found: dict[str, Any] = json.loads(ran.out)
        return found

    def bytes_of(self, name: str) -> tuple[bytes, bytes]:
        """The kernel as it is linked, and as it is booted."""
        folder = self.folder / name
        return (folder / "vmlinux").read_bytes(), (folder / "arch/x86/boot/bzImage").read_bytes()

    def check_boots(self, made: dict[str, Any]) -> None:
        """The kernel itself says, in a guest and to its inspector, that it is the one that was built."""
        assert self.json("inspect", made["folder"])["identity"] == made["identity"]
        told = self.json("boot", made["folder"], "--mode", "emulated", "--", "ktrial-agent", "--version")
        assert (told["exit_status"], told["guest"]["release"]) == (0, made["identity"]["release"])
        assert told["stdout"].startswith("ktrial-agent ")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("builds"))


@pytest.fixture(scope="module")
def by_gcc(lab: Lab) -> dict[str, Any]:
    return lab.build("gcc")


def test_a_kernel_of_gcc_is_what_was_asked_for(lab: Lab, by_gcc: dict[str, Any]) -> None:
    assert "gcc" in by_gcc["identity"]["compiler"]
    assert (by_gcc["flags"]["optimise"], by_gcc["identity"]["hz"]) == ("s", 250)
    assert by_gcc["cost"]["misses"] > 10 * by_gcc["cost"]["hits"], "the cache was empty"
    lab.check_boots(by_gcc)


def test_the_same_sources_give_the_same_bytes_in_another_folder(lab: Lab, by_gcc: dict[str, Any]) -> None:
    """Compiled anew: objects out of a cache would be the same whatever a compiler makes of another folder."""
    again = lab.build("elsewhere", "--cache", "none")
    assert again["cost"]["objects"] == by_gcc["cost"]["objects"]
    assert lab.bytes_of("elsewhere") == lab.bytes_of("gcc")
    assert again["identity"] == by_gcc["identity"]


def test_a_variant_costs_what_differs(lab: Lab, by_gcc: dict[str, Any]) -> None:
    shown = lab.run(*lab.build_words("variant", "--set", "PRINTK_TIME=y"))
    assert shown.status == 0, shown.err
    newest, before, *_ = lab.json("list")["built"]
    assert f"earlier build  {duration(before['cost']['wall_s'])}" in shown.out
    assert newest["folder"] == str(lab.folder / "variant")
    cost = newest["cost"]
    assert cost["hits"] > cost["misses"]
    assert cost["cpu_s"] < by_gcc["cost"]["cpu_s"]
    assert f"{cost['hits']} of {cost['hits'] + cost['misses']} from the cache" in " ".join(shown.out.split())


def test_a_build_that_changes_nothing_is_packed_as_it_is(lab: Lab, by_gcc: dict[str, Any]) -> None:
    before = lab.bytes_of("gcc")
    made = lab.build("gcc", "--package", "deb")
    assert lab.bytes_of("gcc") == before
    assert not list(lab.folder.glob("linux-*")), "nothing is left beside the build"
    image = next(one["path"] for one in made["packages"] if "linux-image" in one["path"] and "-dbg" not in one["path"])
    told = lab.json("inspect", image)["identity"]
    assert told["build_id"] == made["identity"]["build_id"] == by_gcc["identity"]["build_id"]


def test_a_kernel_of_clang_is_what_was_asked_for(lab: Lab) -> None:
    made = lab.build("clang", "--cc", "clang", "--optimise", "3")
    assert "clang" in made["identity"]["compiler"]
    assert made["flags"]["optimise"] == "3"
    lab.check_boots(made)


def test_a_kernel_of_link_time_optimisation_is_what_was_asked_for(lab: Lab) -> None:
    made = lab.build("thin", "--cc", "clang", "--fragment", "lto-thin")
    assert (made["identity"]["lto"], "LLD" in made["identity"]["linker"]) == ("thin", True)
    lab.check_boots(made)
