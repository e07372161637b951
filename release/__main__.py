# SPDX-License-Identifier: Apache-2.0
"""Build all files of a release into a folder: wheels, sources, Debian packages, archives, licences, parts, sums."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from release import CannotRelease, licences, sbom
from release.layout import SUITES, lay_out, write_deb, write_portable
from release.recipes import write_recipes
from release.source import check_version, export
from release.sums import sign, write_sums
from release.wheels import PYTHONS, build_sdist, build_wheel, fetch_wheels

_KINDS = ("wheel", "deb", "portable")
#: Temporary files of a release, while it is made.
_SPACE_BYTES = 6 << 30


def main(words: Sequence[str]) -> int:
    """Build one release; return the exit status."""
    asked = _parser().parse_args(words)
    try:
        _build(asked)
    except CannotRelease as error:
        print(f"setup/release: {error}\n  next: {error.hint}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="setup/release", description=__doc__)
    parser.add_argument("version", help="the version, which CHANGELOG.md and the sources must name too")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where the files go (dist/VERSION)")
    parser.add_argument("--sign", metavar="KEY", help="file of the SSH key that signs the list of sums")
    parser.add_argument("--agents", metavar="FOLDER", help="take ktrial-agent-ARCHITECTURE from there, build none")
    parser.add_argument("--wheels", metavar="FOLDER", help="where the packages of others are kept (.setup/release)")
    parser.add_argument(
        "--only",
        action="append",
        choices=_KINDS,
        help="build only these besides the sources and the wheels. Repeatable.",
    )
    parser.add_argument(
        "--architecture", action="append", choices=licences.ARCHITECTURES, help="only this one. Repeatable."
    )
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    return parser


def _build(asked: argparse.Namespace) -> None:
    root: Path = asked.root
    check_version(root, asked.version)
    output = Path(asked.output or root / "dist" / asked.version).absolute()
    if output.exists() and any(output.iterdir()):
        raise CannotRelease(f"cannot write to {output}: it is not empty", hint=f"remove it: rm -r {output}")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ktrial-release-", dir=output.parent) as place:
        _check_space(Path(place))
        _build_in(Path(place), root, output, asked)
    sums = write_sums(output)
    if asked.sign:
        sign(sums, Path(asked.sign).expanduser())
    for file in sorted(output.iterdir()):
        print(f"{file.stat().st_size / 1e6:8.1f} MB  {file}")
    if not asked.sign:
        print("The sums are not signed: do that before you publish, with --sign KEY.")


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < _SPACE_BYTES:
        raise CannotRelease(
            f"cannot build in {folder.parent}: {free / 1e9:.1f} GB free, {_SPACE_BYTES / 1e9:.1f} GB needed",
            hint="free some space, or name another folder: --output FOLDER",
        )


def _build_in(work: Path, root: Path, output: Path, asked: argparse.Namespace) -> None:
    source = work / "source"
    source.mkdir()
    dated = export(root, source)
    agents = _agents(root, asked.agents, work / "agents")
    cache = Path(asked.wheels or root / ".setup/release").absolute()
    _say("licences and parts")
    _write_lists(source, cache, asked.version, dated, output)
    _say("source distribution")
    build_sdist(source, agents, work / "sdist", dated, output)
    lock = source / "setup/requirements.lock"
    kinds = asked.only or _KINDS
    archives: dict[str, Path] = {}
    for architecture in asked.architecture or licences.ARCHITECTURES:
        _say(f"wheel for {architecture}")
        wheel = build_wheel(source, agents, architecture, dated, output)
        for suite in SUITES if "deb" in kinds else ():
            _say(f"package for Debian {suite.number} on {architecture}")
            tree = work / f"deb-{suite.number}-{architecture}"
            others = {suite.python: fetch_wheels(lock, architecture, suite.python, cache)}
            lay_out(tree / "usr/lib/ktrial", wheel, others)
            write_deb(source, tree, asked.version, architecture, suite, dated, output)
            shutil.rmtree(tree)
        if "portable" in kinds:
            _say(f"archive for {architecture}")
            tree = work / f"portable-{architecture}"
            lay_out(tree, wheel, {python: fetch_wheels(lock, architecture, python, cache) for python in PYTHONS})
            archives[architecture] = write_portable(source, tree, asked.version, architecture, dated, output)
            shutil.rmtree(tree)
    if set(archives) == set(licences.ARCHITECTURES):
        write_recipes(source / "packaging", archives, asked.version, dated, output)


def _write_lists(source: Path, cache: Path, version: str, dated: int, output: Path) -> None:
    """Write the licences of the agent, also into the sources that wheels are built from, and the list of parts."""
    linked = licences.crates(source / "agent", os.environ.get("CARGO", "cargo"))
    glibc = licences.glibc_version()
    lgpl = (source / "packaging/licences/LGPL-2.1.txt").read_text(encoding="utf-8")
    text = licences.text(linked, glibc, lgpl)
    for place in (source, output):
        (place / licences.NAME).write_text(text, encoding="utf-8")
    lock = source / "setup/requirements.lock"
    listed = fetch_wheels(lock, "x86_64", PYTHONS[0], cache)
    parts = sbom.document(version, dated, linked, lock.read_text(encoding="utf-8"), listed, glibc)
    (output / f"ktrial-{version}.cdx.json").write_text(json.dumps(parts, indent=1) + "\n", encoding="utf-8")


def _agents(root: Path, given: str | None, folder: Path) -> Path:
    """Return a folder with the agents of all architectures, built here where none is given."""
    names = [f"ktrial-agent-{architecture}" for architecture in licences.ARCHITECTURES]
    if given is None:
        for architecture in licences.ARCHITECTURES:
            _say(f"agent for {architecture}")
            command: list[str | Path] = ["/bin/sh", root / "setup/agent.sh", root, architecture]
            if subprocess.run(command, check=False).returncode != 0:
                raise CannotRelease(
                    f"cannot build the agent for {architecture}: the messages are above", hint="mend what they name"
                )
    place = root / ".setup/bin" if given is None else Path(given)
    folder.mkdir()
    for name in names:
        if not (place / name).is_file():
            raise CannotRelease(f"cannot find {place / name}", hint="leave --agents out to have the agents built")
        shutil.copyfile(place / name, folder / name)
    return folder


def _say(what: str) -> None:
    print(f"setup/release: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
