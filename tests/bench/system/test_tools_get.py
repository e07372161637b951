# SPDX-License-Identifier: Apache-2.0
"""`ktrial tools get` with a real compiler and real git, from sources of the test's own; then `ktrial bench` with it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from ktrial.bench.build_tool import get_tool
from ktrial.bench.tool_files import load_recipes
from ktrial.bench.tools.toolbox import UserToolbox
from ktrial.bench.tools.workshop import Workshop
from ktrial.kit.errors import KtrialError
from tests.bench.system.test_bench import home, run  # noqa: F401 (home is a fixture)
from tests.support.kept import records
from tests.support.tree import FakeRoot, Ran

# Prints what schbench prints: one of its recorded outputs, so that its reader has something to read.
PROGRAM = r"""#include <stdio.h>
int main(void)
{
    fputs("Latency percentiles (usec) runtime 1 (s) (82 total samples)\n", stderr);
    fputs("\t  50.0th: 2796       (41 samples)\n\t* 99.0th: 5846     (4 samples)\n", stderr);
    fputs("\t  min=9, max=5846\n", stderr);
    return 0;
}
"""
MAKEFILE = "schbench: schbench.c\n\t$(CC) -g -o $@ $<\n"
# Each file holds one thing for which SynthMark's pinned commit does not build on a Linux of today.
OBSTACLES = {
    "linux/Makefile": """CFLAGS = -Wall -Werror -Isource -std=c++11
synthmark.app: source/main.cpp $(wildcard source/tools/*.h)
\t$(CXX) $(CFLAGS) $< $(LIBS) -o $@
""",
    "source/main.cpp": """#include <memory>
#include "libc.h"
#include "tools/VirtualAudioSink.h"
#include "tools/RealAudioSink.h"
int main(int count, char **) {
    int unused;  // a warning
    std::unique_ptr<VirtualAudioSink> sink;
    if (count > 1) sink = std::make_unique<RealAudioSink>();
    else sink = std::make_unique<VirtualAudioSink>();
    printf("%s\\n", sink->known() ? "read" : "not read");
}
""",
    "source/tools/RealAudioSink.h": """#ifndef SYNTHMARK_REAL_AUDIO_SINK_H
#define SYNTHMARK_REAL_AUDIO_SINK_H
#include <aaudio/AAudio.h>
class RealAudioSink { AAudioStream *stream; };
#endif
""",
    "source/tools/VirtualAudioSink.h": """#include "HostTools.h"
#include "UtilClampController.h"
struct VirtualAudioSink {
    bool known() { return UtilClampController::known(); }
};
""",
    "source/tools/HostTools.h": """constexpr int kMaxCpuCount = 64;
static_assert(kMaxCpuCount > 64, "some machines have more");
#include "CustomHostCpuManager.h"
""",
    "source/tools/CustomHostCpuManager.h": '#include "scheddl.h"\n',
    # What glibc declares since 2.41.
    "source/libc.h": """#include <sched.h>
#if !__GLIBC_PREREQ(2, 41)
struct sched_attr { unsigned size; };
extern "C" int sched_getattr(int, struct sched_attr *, unsigned, unsigned) noexcept;
#endif
""",
    "source/tools/scheddl.h": """#include <sys/syscall.h>
#include <unistd.h>
struct sched_attr { unsigned size, words[15]; };
inline int sched_getattr(int task, struct sched_attr *attr, unsigned size, unsigned flags) {
    return syscall(SYS_sched_getattr, task, attr, size, flags);
}
""",
    "source/tools/UtilClampController.h": """struct UtilClampController {
    static bool known() { struct sched_attr attr; return sched_getattr(0, &attr, sizeof(attr), 0) == 0; }
};
""",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "schbench.c").write_text(PROGRAM)
    (folder / "Makefile").write_text(MAKEFILE)
    return folder


def git(folder: Path, *words: str) -> str:
    own = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *own, "-C", folder, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed(folder: Path) -> str:
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=source")
    return git(folder, "rev-parse", "HEAD")


def listed() -> list[Any]:
    built: list[Any] = json.loads(run("tools", "list", "--json").out)["built"]
    return built


def work(home: Path) -> list[str]:  # noqa: F811
    return sorted(path.name for path in (home / ".local/state/ktrial/tools").iterdir())


def test_a_folder_is_built_used_and_removed(home: Path, source: Path) -> None:  # noqa: F811
    missing = run("bench", "schbench", "-n", "1")
    assert (missing.status, "next: ktrial tools get schbench" in missing.err) == (1, True)
    got = run("tools", "get", "schbench", "--from", str(source))
    assert got.status == 0, got.err
    assert "UNVERIFIED" in got.out
    assert "GPL-2.0-only" in got.err
    assert work(home) == ["build.log", "lock"]
    ran = run("bench", "schbench", "-n", "1", "-p", "seconds=1")
    assert ran.status == 0, ran.err
    (record,) = records(home)
    program = Path(record["argv"][0])
    assert program.parts[:-3] == (home / ".local/share/ktrial/tools/schbench").parts
    assert record["built"]["programs"] == {"schbench": hashlib.sha256(program.read_bytes()).hexdigest()}
    assert record["built"]["compilers"]["gcc"].startswith("gcc ")
    assert record["tool_version"].startswith(f"tree {record['built']['tree_sha256'][:12]}, built ")
    assert listed() == [record["built"]]
    assert run("tools", "remove", "schbench").status == 0
    assert listed() == []
    assert run("bench", "schbench", "-n", "1").status == 1


def test_the_recipe_of_synthmark_mends_what_its_commit_lacks(home: Path, tmp_path: Path) -> None:  # noqa: F811
    folder = tmp_path / "synthmark"
    for name, text in OBSTACLES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    got = run("tools", "get", "synthmark", "--from", str(folder))
    assert got.status == 0, got.err
    (program,) = home.glob(".local/share/ktrial/tools/synthmark/tree-*/bin/synthmark")
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "read\n"
    assert (folder / "source/tools/HostTools.h").read_text() == OBSTACLES["source/tools/HostTools.h"]


def test_a_checkout_is_built_at_its_commit(home: Path, source: Path) -> None:  # noqa: F811
    commit = committed(source)
    assert run("tools", "get", "schbench", "--from", str(source)).status == 0
    (receipt,) = listed()
    assert receipt["source"] == {
        "kind": "git",
        "place": str(source),
        "verified": "no",
        "commit": commit,
        "archive_sha256": None,
    }
    (source / "schbench.c").write_text("not in any commit")
    refused = run("tools", "get", "schbench", "--from", str(source))
    assert (refused.status, "uncommitted changes" in refused.err) == (2, True)
    assert listed() == [receipt]


def test_an_archive_is_built_when_its_digest_is_the_expected_one(home: Path, source: Path) -> None:  # noqa: F811
    path = source.with_name("source.tar.xz")
    with tarfile.open(path, "w:xz") as tar:
        tar.add(source, "schbench-1")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    unknown = run("tools", "get", "schbench", "--from", str(path))
    assert (unknown.status, f"--accept-sha256 {digest}" in unknown.err) == (1, True)
    wrong = run("tools", "get", "schbench", "--from", str(path), "--accept-sha256", "0" * 64)
    assert (wrong.status, "nothing was unpacked" in wrong.err) == (1, True)
    assert listed() == []
    got = run("tools", "get", "schbench", "--from", str(path), "--accept-sha256", digest)
    assert got.status == 0, got.err
    (receipt,) = listed()
    assert (receipt["source"]["verified"], receipt["source"]["archive_sha256"]) == ("sha256", digest)


@pytest.mark.parametrize(
    "words, status, message",
    [
        (("schbensh",), 2, "did you mean schbench?"),
        (("schbench", "--from", "http://example.org/a.git"), 2, "not an https address"),
        (("schbench", "--from", "/nonexistent"), 2, "no such file or folder: /nonexistent"),
        (("schbench", "--accept-sha256", "0" * 64), 2, "add --from"),
        (("schbench", "--from", "/", "--accept-sha256", "0"), 2, "expected 64 lower-case hexadecimal digits"),
        (("schbench", "--from", "https://127.0.0.1:1/x.git"), 1, "from https://127.0.0.1:1/x.git"),
        (("schbench", "--from", "https://127.0.0.1:1/x.git"), 1, "next: name another source, such as an archive"),
        (("schbench", "--from", "https://127.0.0.1:1/x.tar.gz"), 1, "cannot download"),
    ],
)
def test_what_cannot_be_got(home: Path, words: tuple[str, ...], status: int, message: str) -> None:  # noqa: F811
    ran = run("tools", "get", *words)
    assert (ran.status, message in ran.err) == (status, True), ran.err
    assert listed() == []


@pytest.mark.parametrize(
    "makefile, message",
    [
        ("schbench:\n\tfalse\n", "`make schbench` ended with status 2; it said"),
        ("schbench:\n\ttrue\n", "wrote no program schbench"),
        ("schbench:\n\tln -s /bin/true schbench\n", "wrote no program schbench"),
        (
            "schbench:\n\t@echo 'a.c:1:1: error: no such type' >&2; for i in 1 2 3 4 5; do echo $$i >&2; done; false\n",
            "it said: a.c:1:1: error: no such type\n",
        ),
        ("schbench:\n\techo '#include <absent.h>' | $(CC) -xc -\n", "fatal error: absent.h: No such file"),
        ("schbench:\n\techo 'void f(); int main() {f();}' | $(CC) -xc -\n", "undefined reference to `f'"),
        ("schbench: absent.o\n", "No rule to make target 'absent.o'"),
    ],
)
def test_a_build_that_fails_installs_nothing(home: Path, source: Path, makefile: str, message: str) -> None:  # noqa: F811
    (source / "Makefile").write_text(makefile)
    ran = run("tools", "get", "schbench", "--from", str(source))
    assert (ran.status, message in ran.err) == (1, True), ran.err
    assert listed() == []
    assert work(home) == ["build.log", "lock"]


def test_the_build_sees_nothing_of_the_users_environment(
    home: Path,  # noqa: F811
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CFLAGS", "-DSECRET")
    monkeypatch.setenv("MAKEFLAGS", "--no-such-option")
    (source / "Makefile").write_text(MAKEFILE + "\tenv | cut -d= -f1 | sort | tr '\\n' ' '; pwd; echo $$HOME\n")
    assert run("tools", "get", "schbench", "--from", str(source)).status == 0
    log = (home / ".local/state/ktrial/tools/build.log").read_text()
    assert "HOME LC_ALL MAKEFLAGS MAKELEVEL" in log
    assert "SECRET" not in log
    assert f"{home}/.local/state/ktrial/tools/home" in log


def test_the_pinned_commit_is_verified_by_its_id(tmp_path: Path, source: Path) -> None:
    """What git is given for the pinned commit is checked object by object: a changed one is refused."""
    import msgspec

    commit = committed(source)
    recipe = msgspec.structs.replace(load_recipes()["schbench"], commit=commit)
    toolbox = UserToolbox(tmp_path / "tools")
    with Workshop(tmp_path / "work") as workshop:
        receipt, _ = get_tool(recipe, str(source), None, workshop, toolbox, lambda: 1)
    assert receipt.source.verified == "commit"
    wrong = msgspec.structs.replace(recipe, tree_sha256="0" * 64)
    with Workshop(tmp_path / "work") as workshop, pytest.raises(KtrialError, match="has unexpected files"):
        get_tool(wrong, str(source), None, workshop, toolbox, lambda: 1)
    right = msgspec.structs.replace(recipe, tree_sha256=receipt.tree_sha256)
    with Workshop(tmp_path / "work") as workshop:
        get_tool(right, str(source), None, workshop, toolbox, lambda: 1)
    blob = git(source, "rev-parse", "HEAD:schbench.c")
    other = git(source, "hash-object", "-w", "Makefile")
    objects = source / ".git/objects"
    stored = objects / blob[:2] / blob[2:]
    stored.chmod(0o644)
    stored.write_bytes((objects / other[:2] / other[2:]).read_bytes())
    with Workshop(tmp_path / "work") as workshop, pytest.raises(KtrialError, match="cannot fetch commit"):
        get_tool(recipe, str(source), None, workshop, toolbox, lambda: 1)


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_two_builds_at_a_time_are_refused_and_an_interrupted_one_ends(
    home: Path,  # noqa: F811
    source: Path,
    number: signal.Signals,
    status: int,
) -> None:
    # A time of its own: both cases may run at once.
    sleep = f"sleep {63000 + status}"
    (source / "Makefile").write_text(f"schbench:\n\ttouch here; {sleep}\n")
    argv = [sys.executable, "-m", "ktrial", "tools", "get", "schbench", "--from", str(source)]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    here = home / ".local/state/ktrial/tools/source/here"
    end = time.monotonic() + 30
    while not here.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    second = run("tools", "get", "schbench", "--from", str(source))
    assert (second.status, "another `ktrial tools get` is running" in second.err) == (1, True)
    process.send_signal(number)
    assert process.wait(30) == status
    assert subprocess.run(["pgrep", "-fx", sleep], capture_output=True, check=False).returncode == 1
    assert work(home) == ["build.log", "lock"]
    assert listed() == []


def test_a_broken_receipt_is_listed_as_such(home: Path, source: Path) -> None:  # noqa: F811
    assert run("tools", "get", "schbench", "--from", str(source)).status == 0
    (receipt,) = (home / ".local/share/ktrial").glob("**/tool.json")
    listed_whole = run("tools", "list").out
    assert "UNVERIFIED" in next(line for line in listed_whole.splitlines() if line.startswith("schbench"))
    receipt.write_text("{")
    ran = run("tools", "list")
    assert ran.status == 0, ran.err
    assert "BROKEN" in next(line for line in ran.out.splitlines() if line.startswith("schbench"))
    assert "cannot read" in " ".join(ran.out.split())
    assert list(json.loads(run("tools", "list", "--json").out)["broken"]) == ["schbench"]


def test_listing_touches_no_network(root: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ran: Ran = root.run("tools", "list")
    assert ran.status == 0
    rows = [line.split() for line in ran.out.splitlines()[2:4]]
    assert [(row[0], "UNVERIFIED" in row) for row in rows] == [("schbench", True), ("synthmark", True)]
    assert "UNVERIFIED: there is no digest" in ran.out
    assert os.environ["HOME"] not in ran.out
