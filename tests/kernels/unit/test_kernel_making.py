# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from ktrial.kernels.build.make_kernel import (
    BuildOrder,
    make_environment,
    make_kernel,
    make_variables,
    with_places_left_out,
)
from ktrial.kernels.build.progress import progress_line
from ktrial.kernels.build.text import built_table, cost_text, made_text
from ktrial.kernels.build_record import BuildCost, Flags, KernelMade, Toolchain, memory_of, objects_of, room_of
from ktrial.kernels.identity import KernelFound, KernelIdentity
from ktrial.kernels.request import Configured
from ktrial.kernels.source import AppliedPatch, KernelSource, PatchSet
from ktrial.kernels.uarch.target_files import load_targets
from ktrial.kernels.uarch.targets import find_target
from ktrial.kit.errors import KtrialError, Refused

ZEN3 = find_target("znver3", load_targets())
GCC = Toolchain(kind="gcc", variables={"CC": "gcc", "HOSTCC": "gcc"})
SYMBOLS = {"SMP": "y", "HZ": "250", "SALT": '""', "NAME": '"(none)"'}
SOURCE = KernelSource(
    kind="archive",
    place="/usr/src/linux-source-6.12.tar.xz",
    version="6.12.117",
    sha256="a" * 64,
    patches=(AppliedPatch(name="bore.patch", place="bore.patch", sha256="b" * 64, files=9, shifted=2, families=()),),
    families=(PatchSet("BORE", "6.8.0"),),
    epoch_s=1_700_000_000,
)
CONFIGURED = Configured(
    version="6.12.117",
    architecture="x86_64",
    compiler="gcc",
    base="tinyconfig",
    base_sha256=None,
    fragments=("guest",),
    wishes=(),
    unheld=(),
    differences=(),
    symbols=SYMBOLS,
    sha256="c" * 64,
)
IDENTITY = KernelIdentity(
    release="6.12.117",
    build="#1",
    architecture="x86-64",
    packing="gzip",
    built_by="ktrial@ktrial",
    compiler="gcc (Debian 12.2.0-14) 12.2.0",
    linker="GNU ld 2.40",
    build_id="abcd",
    btf=False,
    scheduler="EEVDF",
    config_from="inside the image",
)
READ_BACK = {"SMP": "y", "HZ": "250", "NAME": "(none)", "NUMA": "n"}
FOUND = KernelFound(name="x", place="/b/arch/x86/boot/bzImage", identity=IDENTITY, symbols=READ_BACK)
FLAGS = Flags(object="init/main.o", march="znver3", optimise="3", compiler="gcc")
ORDER = BuildOrder(
    source=SOURCE,
    architecture="x86_64",
    toolchain=GCC,
    tools=(),
    configured=CONFIGURED,
    make=make_variables(GCC, "x86_64", "ccache", ZEN3, "3"),
    environment=make_environment(SOURCE),
    target=ZEN3,
    optimise="3",
    jobs=2,
)


class Build:
    def __init__(self, *, room: bool = True) -> None:
        self._room = room
        self.made: list[tuple[str, int]] = []

    def check_room(self, symbols: object, jobs: int) -> None:
        if not self._room:
            raise Refused("no room")

    def run(self, target: str, jobs: int) -> BuildCost:
        self.made.append((target, jobs))
        return BuildCost(wall_s=75.2, cpu_s=140.0, objects=1780, hits=1700, misses=80)


def test_what_make_is_told() -> None:
    assert ORDER.make == {
        "ARCH": "x86_64",
        "CC": "ccache gcc",
        "HOSTCC": "ccache gcc",
        "KCFLAGS": "-O3 -march=znver3",
        "KCPPFLAGS": "-march=znver3",
        "KRUSTFLAGS": "-Ctarget-cpu=znver3",
    }
    assert make_variables(GCC, "arm64") == {"ARCH": "arm64", "CC": "gcc", "HOSTCC": "gcc"}
    assert ORDER.environment["KBUILD_BUILD_TIMESTAMP"] == "Tue Nov 14 22:13:20 UTC 2023"
    assert (ORDER.environment["SOURCE_DATE_EPOCH"], ORDER.environment["KBUILD_BUILD_USER"]) == ("1700000000", "ktrial")
    assert make_environment(SOURCE, distributed=True)["CCACHE_PREFIX"] == "distcc"


def test_debug_information_names_no_folder_and_keeps_other_flags() -> None:
    told = with_places_left_out({"CC": "gcc", "KCFLAGS": "-O3"}, {"DEBUG_INFO": "y"}, "/linux", "/out")
    maps = "-fdebug-prefix-map=/linux=. -fdebug-prefix-map=/out=."
    assert told == {"CC": "gcc", "KCFLAGS": f"-O3 {maps}", "KAFLAGS": maps}
    assert with_places_left_out({"CC": "gcc"}, SYMBOLS, "/linux", "/out") == {"CC": "gcc"}


def test_rust_s_code_names_no_folder() -> None:
    told = with_places_left_out({"KRUSTFLAGS": "-Ctarget-cpu=znver3"}, {"RUST": "y"}, "/linux", "/out")
    maps = "--remap-path-prefix=/linux=. --remap-path-prefix=/out=."
    assert told == {"KRUSTFLAGS": f"-Ctarget-cpu=znver3 {maps}"}


def test_a_flag_that_was_not_given_is_not_made_up() -> None:
    bare = msgspec.structs.replace(FLAGS, march=None, optimise="s")
    order = msgspec.structs.replace(ORDER, target=None, optimise=None)
    made = make_kernel(order, Build(), lambda: (FOUND, "d" * 64), lambda: bare, lambda: 7, "/b")
    text = made_text(made, None, width=80)
    assert "compiled with  gcc -Os, no -march (init/main.o)\n" in text
    assert "None" not in text


@pytest.mark.parametrize(
    "cc, hits, said",
    [
        ("gcc", None, "1 s of CPU, 10 objects, no cache"),
        ("distcc gcc", None, "1 s of CPU (without distcc's machines), 10 objects, no cache"),
        ("sccache gcc", None, "1 s of CPU (without sccache's server), 10 objects, sccache gave no statistics"),
        ("sccache gcc", 7, "1 s of CPU (without sccache's server), 10 objects, 7 of 10 from the cache"),
    ],
)
def test_what_a_cache_gave_is_told_as_far_as_it_tells(cc: str, hits: int | None, said: str) -> None:
    made = make_kernel(ORDER, Build(), lambda: (FOUND, "d" * 64), lambda: FLAGS, lambda: 7, "/b")
    cost = BuildCost(wall_s=1.0, cpu_s=1.0, objects=10, hits=hits, misses=None if hits is None else 3)
    assert cost_text(msgspec.structs.replace(made, make={"CC": cc}, cost=cost)).endswith(said)


def test_what_was_built_is_recorded_and_told() -> None:
    build = Build()
    made = make_kernel(ORDER, build, lambda: (FOUND, "d" * 64), lambda: FLAGS, lambda: 7, "/b")
    assert (build.made, made.image, made.ended_unix_ms) == ([("bzImage", 2)], "/b/arch/x86/boot/bzImage", 7)
    assert msgspec.json.decode(msgspec.json.encode(made), type=type(made)) == made
    text = made_text(made, msgspec.structs.replace(made, folder="/first"), width=80)
    assert max(map(len, text.splitlines())) <= 80
    for said in (
        "took           1 min 15 s, 2 min 20 s of CPU, 1780 objects, 1700 of 1780 from",
        "patch sets     BORE 6.8.0",
        "gcc -O3 -march=znver3 (init/main.o)",
        "bore.patch (9 files, 2 hunks at an offset)",
    ):
        assert said in text
    assert "BORE 6.8.0, guest" in built_table([made], width=100)
    with pytest.raises(Refused, match="no room"):
        make_kernel(ORDER, Build(room=False), lambda: (FOUND, ""), lambda: FLAGS, lambda: 7, "/b")


@pytest.mark.parametrize(
    "found, flags, said",
    [
        (
            FOUND,
            msgspec.structs.replace(FLAGS, march="x86-64"),
            "init/main.o was compiled with -march=x86-64, not znver3",
        ),
        (FOUND, msgspec.structs.replace(FLAGS, optimise="2"), "compiled with -O2, not -O3"),
        (msgspec.structs.replace(FOUND, symbols={**READ_BACK, "HZ": "1000"}), FLAGS, "HZ is 1000, not 250"),
        (
            msgspec.structs.replace(FOUND, identity=msgspec.structs.replace(IDENTITY, compiler="Debian clang 14")),
            FLAGS,
            "compiled with Debian clang 14, not with gcc",
        ),
    ],
)
def test_another_kernel_than_the_one_asked_for_is_an_error(found: KernelFound, flags: Flags, said: str) -> None:
    with pytest.raises(KtrialError, match="the built kernel differs from the request") as caught:
        make_kernel(ORDER, Build(), lambda: (found, ""), lambda: flags, lambda: 7, "/b")
    assert said in caught.value.message


def test_a_compiler_under_its_full_name_is_the_same_one() -> None:
    said = "gcc (Debian 12.2.0-14) 12.2.0"
    configured = msgspec.structs.replace(CONFIGURED, symbols={**SYMBOLS, "CC_VERSION_TEXT": f'"{said}"'})
    order = msgspec.structs.replace(ORDER, configured=configured)

    def made(compiler: str) -> KernelMade:
        found = msgspec.structs.replace(FOUND, symbols={**READ_BACK, "CC_VERSION_TEXT": f'"{compiler}"'})
        return make_kernel(order, Build(), lambda: (found, ""), lambda: FLAGS, lambda: 7, "/b")

    assert made(f"x86_64-linux-gnu-{said}").image
    with pytest.raises(KtrialError, match=r"CC_VERSION_TEXT is gcc .* 13\.2\.0"):
        made("gcc (Debian 13.2.0-1) 13.2.0")


def test_modules_are_built_where_the_configuration_has_them() -> None:
    symbols = {**SYMBOLS, "MODULES": "y"}
    order = msgspec.structs.replace(ORDER, configured=msgspec.structs.replace(CONFIGURED, symbols=symbols))
    build = Build()
    make_kernel(
        order, build, lambda: (msgspec.structs.replace(FOUND, symbols=symbols), ""), lambda: FLAGS, lambda: 7, "/b"
    )
    assert build.made == [("all", 2)]


def test_what_a_build_will_take() -> None:
    small = {f"S{number}": "y" for number in range(980)}
    assert objects_of(small) == 1764
    assert 300 << 20 < room_of(small) < 600 << 20
    assert room_of({**small, "DEBUG_INFO": "y"}) > 2 * room_of(small)
    assert memory_of(small, 2)[1] == "running 2 compilers at a time"
    assert memory_of({**small, "LTO_CLANG_THIN": "y"}, 2) == (4 << 30, "linking with ThinLTO")
    assert memory_of({**small, "LTO_CLANG_FULL": "y"}, 2)[0] > memory_of({**small, "DEBUG_INFO_BTF": "y"}, 2)[0]


def test_progress() -> None:
    assert progress_line(400, 0, 1600, 100) == "400 of about 1600 objects, 1 min 40 s, about 5 min 0 s left"
    assert progress_line(400, 800, 1600, 100) == "1200 of about 1600 objects, 1 min 40 s, about 1 min 40 s left"
    assert "linking" in progress_line(1600, 0, 1500, 100)
