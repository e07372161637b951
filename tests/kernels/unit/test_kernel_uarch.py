# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest

from ktrial.cli.main import main
from ktrial.kernels.uarch.arm_targets import find_cpu_target
from ktrial.kernels.uarch.cpu_text import arm_cpu_json, arm_cpu_text, cpu_json, cpu_text
from ktrial.kernels.uarch.patch import KCONFIG, MAKEFILE, MASKS
from ktrial.kernels.uarch.target_files import load_cpu_targets, load_targets
from ktrial.kernels.uarch.targets import Compiler, RustCompiler, VerifiedTarget
from ktrial.kernels.uarch.targets_text import (
    cpu_targets_json,
    cpu_targets_text,
    targets_json,
    targets_page,
    targets_text,
    verified_text,
)
from ktrial.kernels.uarch.verify import check_cpu_accepted
from ktrial.kit.errors import Refused
from ktrial.machine.facts import Fact, FactBook
from tests.support.kernel_trees import SHAPES, files, write
from tests.support.tree import Ran

TARGETS = load_targets()
NAMES = tuple(target.name for target in TARGETS)
GCC = Compiler(
    path="/usr/bin/gcc",
    kind="gcc",
    version="12.2.0",
    number=120200,
    native="znver3",
    accepted=NAMES[:40],
    refused=dict.fromkeys(NAMES[40:], "bad value"),
    extensions={"x86-64-v3": ("AVX2", "BMI2"), "znver3": ("AVX2", "BMI2", "MOVBE")},
    kept={"x86-64-v3": ("BMI2",), "znver3": ("BMI2", "MOVBE")},
)
RUSTC = RustCompiler(path="/usr/bin/rustc", version="1.95.0", llvm=220102, native="znver5", accepted=NAMES)
FACTS = FactBook({"cpu.model": Fact(value="AMD EPYC"), "cpu.level": Fact(value=4)})


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(["kernel", *argv], out, err), out.getvalue(), err.getvalue())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write(SHAPES["6.14.0"], tmp_path / "linux")


def test_a_patch_is_written_and_the_tree_is_left_alone(tree: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    shown = run("uarch", "patch", str(tree))
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith(f"--- a/{KCONFIG}\n+++ b/{KCONFIG}\n@@ ")
    output = tmp_path / "out.patch"
    assert run("uarch", "patch", str(tree), "-o", str(output)).status == 0
    assert output.read_text() == shown.out
    assert json.loads(run("uarch", "patch", str(tree), "--json").out)["patch"] == shown.out
    assert run("uarch", "patch", str(tree), "-o", str(output)).status == 2
    assert run("uarch", "patch", str(tree), "-o", str(output), "--force").status == 0
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_applied_and_taken_out_again(tree: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mode) for path in tree.rglob("*") if path.is_file()}
    assert "none yet; ktrial can add them" in run("uarch", "patch", str(tree), "--check").out
    (tree / MAKEFILE).chmod(0o600)
    assert "applied to Linux 6.14.0" in run("uarch", "patch", str(tree), "--apply").err
    assert (tree / MAKEFILE).stat().st_mode & 0o777 == 0o600
    assert json.loads(run("uarch", "patch", str(tree), "--check", "--json").out)["tree"]["applied"]
    again = run("uarch", "patch", str(tree), "--apply")
    assert (again.status, "already has the patch" in again.err) == (4, True)
    assert run("uarch", "patch", str(tree), "--reverse").status == 0
    (tree / MAKEFILE).chmod(before[tree / MAKEFILE][1])
    assert {path: (path.read_bytes(), path.stat().st_mode) for path in tree.rglob("*") if path.is_file()} == before


def test_what_cannot_be_written_leaves_the_tree_as_it_was(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []

    def write_once(path: Path, data: bytes) -> int:
        if "required-features" in path.name and not written:
            written.append(path)
            raise OSError(28, "No space left on device", str(path))
        with path.open("wb") as file:
            return file.write(data)

    monkeypatch.setattr(Path, "write_bytes", write_once)
    ran = run("uarch", "patch", str(tree), "--apply")
    assert (ran.status, "No space left on device; the tree is unchanged" in ran.err) == (1, True)
    for path, text in files(SHAPES["6.14.0"]).items():
        assert (tree / path).read_text() == text
    assert written[0].parent == (tree / MASKS).parent
    assert not written[0].exists()


@pytest.mark.parametrize(
    "harm, said",
    [
        (lambda tree: (tree / KCONFIG).unlink(), "not a kernel tree: arch/x86/Kconfig.cpu is missing"),
        (lambda tree: (tree / KCONFIG).write_bytes(b"\xff\n"), "not UTF-8 text"),
        (lambda tree: (tree / KCONFIG).write_bytes(b"config A\r\n"), "CRLF line ends, or no newline"),
        (lambda tree: (tree / KCONFIG).write_text("nothing\n"), "it defines no symbol"),
    ],
)
def test_what_is_no_tree(harm: object, said: str, tree: Path) -> None:
    assert callable(harm)
    harm(tree)
    ran = run("uarch", "patch", str(tree), "--apply")
    assert ran.status != 0
    assert said in ran.err


def test_a_file_that_leads_out_of_the_tree_is_not_touched(tree: Path, tmp_path: Path) -> None:
    (tree / MAKEFILE).rename(tmp_path / "outside")
    (tree / MAKEFILE).symlink_to(tmp_path / "outside")
    ran = run("uarch", "patch", str(tree), "--apply")
    assert (ran.status, "outside the tree" in ran.err) == (2, True)


@pytest.mark.parametrize(
    "argv, status, said",
    [
        (("uarch", "patch", "/nowhere"), 2, "/nowhere: not a folder"),
        (("uarch", "patch", ".", "--verify", "zen3"), 2, "--verify requires --apply"),
        (("uarch", "patch", ".", "--check", "-o", "x"), 2, "cannot combine -o with --check"),
        (("uarch", "flags", "x86-64-v4"), 2, "use x86-64-v3"),
        (("uarch", "flags", "znver"), 2, "did you mean znver"),
        (("uarch", "flags", "znver3", "--cc", "nogcc"), 2, "nogcc: no such program"),
        (("uarch", "flasg"), 2, "did you mean flags?"),
        (("cpuu",), 2, "did you mean cpu?"),
    ],
)
def test_odd_words_are_answered_with_what_is_wrong(argv: tuple[str, ...], status: int, said: str) -> None:
    ran = run(*argv)
    assert (ran.status, said in ran.err) == (status, True), ran.err


def test_texts_fit_eighty_columns_and_say_what_is_known() -> None:
    verified = VerifiedTarget(
        target="znver3",
        kernel="6.12.0",
        compiler="gcc 12.2.0",
        symbols={"MZEN3": "y"},
        object="lib/ctype.o",
        march="-march=znver3",
        command=("gcc",),
        rust=False,
        runs_here=False,
    )
    texts = [
        cpu_text(FACTS, TARGETS, [GCC], RUSTC, width=80),
        targets_text(TARGETS, [GCC], RUSTC, width=80),
        verified_text(verified, width=80),
    ]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80
    cpu, listed, proven = texts
    assert "accepts       40 of 60 targets" in cpu
    assert "gcc 12.2.0  znver3     bmi2 movbe  avx2" in cpu
    assert "no: this CPU lacks instructions that it uses" in proven
    assert listed.count("\nznver5 ") == 1
    odd = msgspec.structs.replace(GCC, native="x86-64")
    assert "x86-64: this compiler does not know the CPU" in cpu_text(FACTS, TARGETS, [odd], None, width=80)
    assert "no gcc or clang" in cpu_text(FACTS, TARGETS, [], None, width=80)


def test_json_names_who_accepts() -> None:
    assert cpu_json(FACTS, [GCC], None)["level"] == 4
    told = {one["name"]: one for one in targets_json(TARGETS, [GCC], RUSTC)["targets"]}
    assert told["x86-64-v3"]["accepted_by"] == ["gcc 12", "rustc"]
    assert told[NAMES[-1]]["accepted_by"] == ["rustc"]
    assert told["bonnell"]["rust"] == "atom"
    assert told["diamondrapids"]["accepted_by"] == []


def test_the_page_has_every_target_and_says_why_v4_is_not_there() -> None:
    page = targets_page(TARGETS)
    assert "x86-64-v4 is missing on purpose" in page
    for target in TARGETS:
        assert page.count(f"| `{' '.join(target.c_flags)}` |") == 1


CPUS = load_cpu_targets()
ARM_GCC = msgspec.structs.replace(
    GCC,
    path="/usr/bin/aarch64-linux-gnu-gcc",
    accepted=("generic", "neoverse-n1"),
    refused={one.name: "unknown value" for one in CPUS if one.name not in ("generic", "neoverse-n1")},
)
ARM_RUSTC = msgspec.structs.replace(RUSTC, accepted=("generic", "apple-m1"))


def test_cpus_of_arm64_and_who_accepts_them() -> None:
    text = cpu_targets_text(CPUS, [ARM_GCC], ARM_RUSTC, width=80)
    assert max(map(len, text.splitlines())) <= 80
    shown = {line.split()[0]: line.split()[-1] for line in text.splitlines() if line.strip()}
    assert (shown["generic"], shown["neoverse-n1"], shown["apple-m1"], shown["cortex-x4"]) == (
        *("all", "12", "rustc"),
        "none",
    )
    told = {one["name"]: one["accepted_by"] for one in cpu_targets_json(CPUS, [ARM_GCC], None)["targets"]}
    assert (told["neoverse-n1"], told["apple-m1"]) == (["gcc 12"], [])
    cpu = arm_cpu_text(CPUS, [ARM_GCC], ARM_RUSTC, width=80)
    assert max(map(len, cpu.splitlines())) <= 80
    assert f"accepts       2 of {len(CPUS)} targets" in cpu
    assert "apple-m1 " in cpu
    assert arm_cpu_json([ARM_GCC], None)["architecture"] == "arm64"
    assert "no gcc or clang for arm64" in arm_cpu_text(CPUS, [], None, width=80)


def test_a_cpu_that_the_compiler_lacks_is_refused() -> None:
    check_cpu_accepted(find_cpu_target("neoverse-n1", CPUS), ARM_GCC)
    with pytest.raises(Refused, match=r"does not accept -mcpu=apple-m1: unknown value") as error:
        check_cpu_accepted(find_cpu_target("apple-m1", CPUS), ARM_GCC)
    assert str(error.value.hint).endswith("accepts apple-m1")
