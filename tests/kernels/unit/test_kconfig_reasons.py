# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ktrial.kernels.config.reasons import KnownSymbols
from ktrial.kit.errors import BadInput

FILES = {
    "Kconfig": 'mainmenu "Linux"\nsource "init/Kconfig"\nsource "arch/$(SRCARCH)/Kconfig"\nsource "drivers/*/Kconfig"\n'
    'source "nowhere/Kconfig"\n',
    "init/Kconfig": """
config HAVE_RUST
\tbool

config RUST_IS_AVAILABLE
\tdef_bool $(success,$(srctree)/scripts/rust_is_available.sh)

config RUST
\tbool "Rust support"
\tdepends on HAVE_RUST
\tdepends on RUST_IS_AVAILABLE
\tdepends on !MODVERSIONS
\tdepends on !DEBUG_INFO_BTF || (PAHOLE_HAS_LANG_EXCLUDE && !LTO)
\thelp
\t  Enables it.

config PAHOLE_HAS_LANG_EXCLUDE
\tdef_bool PAHOLE_VERSION >= 124

config PAHOLE_VERSION
\tint
\tdefault $(shell,pahole-version.sh)

config MODVERSIONS
\tbool "Versions"

menu "Debugging"
\tdepends on DEBUG_KERNEL

config DEBUG_INFO_BTF
\tbool "BTF"
\tdepends on BPF_SYSCALL && \\
\t\tPAHOLE_VERSION >= 116

endmenu

config DEBUG_KERNEL
\tbool "Debugging" if EXPERT

config EXPERT
\tbool "Expert"

config BPF_SYSCALL
\tbool "bpf()"
\tselect BPF

config BPF
\tbool

config LTO
\tbool

choice
\tprompt "LTO"
\tdefault LTO_NONE

config LTO_NONE
\tbool "None"

config LTO_CLANG_THIN
\tbool "Thin"
\tdepends on CC_IS_CLANG
\tselect LTO

endchoice

config CC_IS_CLANG
\tdef_bool $(success,clang)
""",
    "arch/x86/Kconfig": """
config X86
\tdef_bool y
\tselect HAVE_RUST if 64BIT

config 64BIT
\tbool "64-bit"

if X86
choice
\tprompt "Timer"
config HZ_100
\tbool "100"
config HZ_250
\tbool "250"
endchoice
endif

config NR_CPUS
\tint "CPUs"
\trange 2 512

config LOCALVERSION
\tstring "Local"
""",
    "drivers/a/Kconfig": """
config DRIVER
\ttristate "Driver"
\tdepends on BUS

config BUS
\ttristate "Bus"
\tdepends on GONE
""",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> KnownSymbols:
    folder = tmp_path_factory.mktemp("linux")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return KnownSymbols(folder, {"SRCARCH": "x86"})


BTF = {"X86": "y", "64BIT": "y", "HAVE_RUST": "y", "RUST_IS_AVAILABLE": "y", "DEBUG_INFO_BTF": "y", "BPF_SYSCALL": "y"}


RUST_WITH_LTO_AND_BTF = (
    "it needs !DEBUG_INFO_BTF || (PAHOLE_HAS_LANG_EXCLUDE && !LTO) "
    "(DEBUG_INFO_BTF is y, PAHOLE_HAS_LANG_EXCLUDE is y, LTO is y)"
)
RUST_WITHOUT_ANYTHING = (
    "it needs HAVE_RUST, which is off (HAVE_RUST has no prompt and cannot be set; X86 selects it); and "
    "RUST_IS_AVAILABLE, which is off (RUST_IS_AVAILABLE has no prompt and cannot be set; Kconfig computes it)"
)
NOT_CLANG = "it needs CC_IS_CLANG, which is off (CC_IS_CLANG has no prompt and cannot be set; Kconfig computes it)"


@pytest.mark.parametrize(
    "name, wanted, values, why",
    [
        (
            "RUST",
            "y",
            {**BTF, "PAHOLE_HAS_LANG_EXCLUDE": "y", "LTO": "y"},
            RUST_WITH_LTO_AND_BTF,
        ),
        ("RUST", "y", {**BTF, "DEBUG_INFO_BTF": "n", "MODVERSIONS": "y"}, "it needs MODVERSIONS off, but it is y"),
        (
            "RUST",
            "y",
            {},
            RUST_WITHOUT_ANYTHING,
        ),
        (
            "DEBUG_INFO_BTF",
            "y",
            {"PAHOLE_VERSION": "115", "BPF_SYSCALL": "y", "DEBUG_KERNEL": "y"},
            "it needs PAHOLE_VERSION >= 116 (PAHOLE_VERSION is 115)",
        ),
        (
            "DEBUG_INFO_BTF",
            "y",
            {"PAHOLE_VERSION": "124", "BPF_SYSCALL": "y"},
            "it needs DEBUG_KERNEL, which is off (DEBUG_KERNEL needs EXPERT, which is off)",
        ),
        ("LTO_CLANG_THIN", "y", {"LTO_NONE": "y"}, NOT_CLANG),
        ("HZ_100", "y", {"X86": "y", "HZ_250": "y"}, "the choice is set to HZ_250"),
        ("HZ_250", "n", {"X86": "y", "HZ_250": "y"}, "its choice needs a value, such as HZ_100"),
        ("BPF", "n", {"BPF": "y", "BPF_SYSCALL": "y"}, "BPF_SYSCALL selects it"),
        ("BPF", "y", {}, "it has no prompt and cannot be set; BPF_SYSCALL selects it"),
        ("NR_CPUS", "9999", {"NR_CPUS": "512"}, "its range is 2 to 512"),
        ("DRIVER", "y", {"BUS": "m", "DRIVER": "m"}, "it needs BUS=y, but BUS is m"),
        ("DRIVER", "y", {}, "it needs BUS, which is off (BUS needs GONE, which this tree lacks)"),
        ("HZ_1000", "y", {}, "this tree has no such symbol; did you mean HZ_100?"),
    ],
)  # fmt: skip
def test_why_a_symbol_does_not_hold(
    name: str, wanted: str, values: Mapping[str, str], why: str, tree: KnownSymbols
) -> None:
    assert tree.why(name, wanted, values) == why


def test_what_is_known_of_symbols(tree: KnownSymbols) -> None:
    assert {"RUST", "64BIT", "BUS"} <= set(tree.names)
    assert tree.choice("HZ_100") == ("HZ_100", "HZ_250")
    assert tree.choice("RUST") == ()
    assert (tree.types["LOCALVERSION"], tree.types["NR_CPUS"], tree.types["BUS"]) == ("string", "int", "tristate")


def test_what_is_no_tree(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a kernel tree: Kconfig is missing"):
        KnownSymbols(tmp_path, {})
    (tmp_path / "Kconfig").write_text("endmenu\n")
    with pytest.raises(BadInput, match="Kconfig:1: 'endmenu' is not in its place: no block is open"):
        KnownSymbols(tmp_path, {})


def test_files_that_lead_elsewhere_or_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "linux").mkdir()
    (tmp_path / "outside").write_text("config OUTSIDE\n\tbool\n")
    (tmp_path / "linux" / "link").symlink_to(tmp_path / "outside")
    text = 'source "Kconfig"\nsource "../outside"\nsource "link"\nsource "/etc/Kconfig"\nconfig A\n\tbool "A"\n'
    (tmp_path / "linux" / "Kconfig").write_text(text)
    assert list(KnownSymbols(tmp_path / "linux", {}).names) == ["A"]
