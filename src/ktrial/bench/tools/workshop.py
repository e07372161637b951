# SPDX-License-Identifier: Apache-2.0
"""Build tools without a shell in a private folder of the user, one build at a time."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ktrial.bench.benchmark import PROGRAM_FOLDERS, RawOutput, quoted
from ktrial.bench.tool import Recipe, ToolSource
from ktrial.bench.tools.archive import check_size, file_sha256, tree_sha256, unpack
from ktrial.bench.tools.download import ARCHIVE_BYTES, download
from ktrial.kit.errors import BadInput, Busy, KtrialError
from ktrial.kit.units import show_bytes

#: Maximum number of seconds for one command.
LIMIT_S = 900.0
#: Environment of a build, without HOME and TMPDIR, which are its private folder.
ENVIRONMENT = {"PATH": ":".join(PROGRAM_FOLDERS), "LC_ALL": "C", "TZ": "UTC", "SOURCE_DATE_EPOCH": "0"}
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
#: Variables of the user that git honours: how to reach the network, and whom to trust there.
_NETWORK = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE")
#: git reads no other configuration, runs no hooks and checks every object that it fetches.
_GIT = ("git", "-c", "protocol.version=2", "-c", "fetch.fsckObjects=true", "-c", "core.hooksPath=/dev/null")


class Workshop:
    """Implements `bench.build_tool.ToolBuilder` in `folder`; leaving the context deletes all files except the log."""

    environment: Mapping[str, str] = ENVIRONMENT

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "build.log"
        self._source = folder / "source"
        self._lock = -1

    def __enter__(self) -> Workshop:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.chmod(0o700)
        self._lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Busy("busy", "another `ktrial tools get` is running", hint="wait until that command ends") from None
        self._clear(self._log)
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()
        os.close(self._lock)

    def programs(self, names: Iterable[str]) -> dict[str, str | None]:
        return {name: shutil.which(name, path=ENVIRONMENT["PATH"]) for name in names}

    def fetch(self, recipe: Recipe, place: str | None, accepted_sha256: str | None) -> ToolSource:
        """Fetch the pinned commit, or the source at `place` (a path or https address)."""
        place = place or recipe.upstream
        if "://" in place:
            if not place.startswith("https://"):
                raise BadInput(
                    f"{place} is not an https address", hint="give the path of a file that you downloaded yourself"
                )
            if not place.endswith(_ARCHIVES):
                return self._fetch_commit(place, recipe.commit, recipe)
            archive = self._folder / "archive"
            download(place, archive)
            return self._open_archive(archive, place, accepted_sha256)
        path = Path(place).resolve()
        if path.is_file():
            if path.stat().st_size > ARCHIVE_BYTES:
                raise BadInput(
                    f"{path} is larger than {show_bytes(ARCHIVE_BYTES)}: no tool's source is that large",
                    hint="with --from, name an archive that contains only the tool",
                )
            archive = self._folder / "archive"
            shutil.copyfile(path, archive)
            return self._open_archive(archive, str(path), accepted_sha256)
        if not path.is_dir():
            raise BadInput(
                f"no such file or folder: {place}",
                hint="give a folder, a tar archive or an https address with --from",
            )
        return self._open_folder(path, recipe)

    def tree_sha256(self) -> str:
        return tree_sha256(self._source)

    def versions(self, compilers: Iterable[str]) -> dict[str, str]:
        """Return the first line of each compiler's `--version`."""
        return {name: self._run([name, "--version"]).split("\n", 1)[0].strip() for name in compilers}

    def build(self, steps: Iterable[Sequence[str]]) -> None:
        for step in steps:
            self._run(step, self._source)

    def built(self, programs: Mapping[str, str]) -> dict[str, Path]:
        found = {name: self._source / place for name, place in programs.items()}
        for path in found.values():
            if path.is_symlink() or not path.is_file() or not os.access(path, os.X_OK):
                raise KtrialError(
                    f"the build succeeded but wrote no program {path.relative_to(self._source)}",
                    hint="check that the source belongs to this tool and version",
                )
        return found

    @staticmethod
    def sha256(path: Path) -> str:
        return file_sha256(path)

    def _fetch_commit(self, place: str, commit: str, recipe: Recipe) -> ToolSource:
        """Fetch the files of a commit; git verifies them against the commit's id, which is a digest."""
        remote = place if "://" in place else f"file://{place}"
        self._source.mkdir()
        git = (*_GIT, "-C", str(self._source))
        what = f"cannot fetch commit {commit} from {place}"
        self._git([*git, "init", "--quiet", "--template="], remote, what)
        self._git([*git, "fetch", "--quiet", "--no-tags", "--depth=1", remote, commit], remote, what)
        self._git([*git, "checkout", "--quiet", "--detach", commit], remote, what)
        shutil.rmtree(self._source / ".git")
        check_size(self._source)
        return ToolSource(
            kind="git", place=place, commit=commit, verified="commit" if commit == recipe.commit else "no"
        )

    def _open_archive(self, archive: Path, place: str, accepted_sha256: str | None) -> ToolSource:
        found = file_sha256(archive)
        if accepted_sha256 is None:
            raise KtrialError(
                f"cannot verify {place}: you gave no SHA-256; the archive's SHA-256 is {found}",
                hint=f"use --accept-sha256 {found} if the publisher names the same digest",
            )
        if found != accepted_sha256:
            raise KtrialError(
                f"cannot verify {place}: expected SHA-256 {accepted_sha256}, got {found}; nothing was unpacked",
                hint="compare the two digests with the one that the publisher names",
            )
        unpack(archive, self._folder / "unpacked", place).rename(self._source)
        return ToolSource(kind="archive", place=place, archive_sha256=found, verified="sha256")

    def _open_folder(self, path: Path, recipe: Recipe) -> ToolSource:
        if (path / ".git").exists():
            git = (*_GIT, "-C", str(path))
            what = f"cannot read the git checkout {path}"
            commit = self._git([*git, "rev-parse", "--verify", "HEAD^{commit}"], str(path), what).strip()
            if self._git([*git, "status", "--porcelain"], str(path), what).strip():
                raise BadInput(
                    f"{path} has uncommitted changes, so no commit would identify the build",
                    hint="commit the changes, or give a copy of the folder without .git",
                )
            return self._fetch_commit(str(path), commit, recipe)
        check_size(path)
        shutil.copytree(path, self._source, symlinks=True)
        return ToolSource(kind="folder", place=str(path), verified="no")

    def _git(self, argv: Sequence[str], remote: str, what: str) -> str:
        afar = remote.startswith("https://")
        return self._run(
            argv,
            what=what,
            next_step="name another source, such as an archive, with --from" if afar else None,
            more={
                **{name: os.environ[name] for name in _NETWORK if name in os.environ},
                **({"GIT_SSL_CAINFO": os.environ["SSL_CERT_FILE"]} if "SSL_CERT_FILE" in os.environ else {}),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "GIT_TERMINAL_PROMPT": "0",
                "GIT_ALLOW_PROTOCOL": "https" if afar else "file",
                "GIT_OPTIONAL_LOCKS": "0",
            },
        )

    def _run(
        self,
        argv: Sequence[str],
        directory: Path | None = None,
        *,
        more: Mapping[str, str] | None = None,
        what: str | None = None,
        next_step: str | None = None,
    ) -> str:
        """Run a program, log its output and return its stdout; `what` begins the message of a failure."""
        program = argv[0] if argv[0].startswith("/") else self.programs([argv[0]])[argv[0]]
        if program is None:
            raise KtrialError(f"{argv[0]} is not installed", hint=f"install {argv[0]}")
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        environment = {**ENVIRONMENT, "HOME": str(home), "TMPDIR": str(home), **(more or {})}
        output = self._folder / "output"
        with self._log.open("a+b") as log, output.open("wb") as out:
            log.write(f"$ {' '.join(argv)}\n".encode())
            log.flush()
            begin = log.tell()
            process = subprocess.Popen(
                [program, *argv[1:]],
                cwd=directory or home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )
            status = _wait(process, argv)
            printed = output.read_bytes()
            log.seek(begin)
            said = RawOutput(stdout=printed, stderr=log.read(), exit_status=status)
            log.write(printed)
        if status != 0:
            who = f"`{shlex.join(argv)}`" if what is None else f"{what}: {argv[0]}"
            message = f"{who} ended with status {status}{quoted(said)}"
            hint = f"{next_step} (whole output: {self._log})" if next_step else f"read the whole output in {self._log}"
            raise KtrialError(message, hint=hint)
        return printed.decode("utf-8", "replace")

    def _clear(self, *more: Path) -> None:
        """Delete the files of a build, but not its log, which stays until the next build."""
        for name in ("source", "unpacked", "home"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        for path in (self._folder / "archive", self._folder / "output", *more):
            path.unlink(missing_ok=True)


def _wait(process: subprocess.Popen[bytes], argv: Sequence[str]) -> int:
    """Return the exit status; if the wait is interrupted, kill the command and its children."""
    try:
        return process.wait(LIMIT_S)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise KtrialError(
                f"`{shlex.join(argv)}` did not end within {LIMIT_S / 60:g} min",
                hint="try again when the machine and the network are less busy",
            ) from None
        raise
