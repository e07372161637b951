# SPDX-License-Identifier: Apache-2.0
"""The container that runs benchmark programs: the request in `--tools`, and the record stored with a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from ktrial.kit.errors import BadInput

Runtime = Literal["podman", "docker", "distrobox"]
RUNTIMES: tuple[Runtime, ...] = get_args(Runtime)
#: The image that `ktrial tools container` builds, and the default of `--tools container`.
DEFAULT_IMAGE = "localhost/ktrial-tools"
#: The base of that image: Debian, since the benchmarks name Debian packages.
DEFAULT_BASE = "docker.io/library/debian:stable-slim"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
_USAGE = "write container, container=IMAGE, container=docker:IMAGE or container=distrobox:NAME"


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """The container of a run: everything that its programs see, apart from the kernel. It is part of a run's identity.

    `image_id` is the SHA-256 of the image's content, `argv` the command that started the container. `box_id` is the id
    of a distrobox, because no digest covers the changes made in it.
    """

    runtime: Runtime
    runtime_version: str
    image: str
    image_id: str
    argv: tuple[str, ...]
    box_id: str | None = None


class ContainerRequest(msgspec.Struct, frozen=True):
    """The image or distrobox in `--tools`. If `runtime` is None, ktrial uses the first installed runtime."""

    runtime: Runtime | None
    name: str


def containerfile(base: str, packages: Iterable[str]) -> str:
    check_image(base, "--base")
    listed = " ".join(sorted({word for package in packages for word in package.split()}))
    install = f"apt-get install --yes --no-install-recommends {listed}"
    return f"FROM {base}\nRUN apt-get update && {install} && rm -rf /var/lib/apt/lists/*\n"


def check_image(name: str, what: str, kind: str = "an image") -> None:
    if not _NAME.fullmatch(name):
        hint = f"for example  {what} {DEFAULT_BASE}" if what == "--base" else _USAGE
        raise BadInput(f"{what}: {name!r} is not the name of {kind}", hint=hint)


def parse_tools(text: str) -> ContainerRequest:
    """Parse `container[=[RUNTIME:]NAME]`. Raise BadInput for other texts."""
    word, _, name = text.partition("=")
    runtime: Runtime | None = next((runtime for runtime in RUNTIMES if name.startswith(f"{runtime}:")), None)
    empty = "=" in text and not name
    name = name.removeprefix(f"{runtime}:") if runtime else name
    if word != "container" or empty or (runtime == "distrobox" and not name):
        raise BadInput(f"cannot read --tools {text!r}", hint=_USAGE)
    if name:
        check_image(name, f"--tools {text}", "a distrobox" if runtime == "distrobox" else "an image")
    return ContainerRequest(runtime, name or DEFAULT_IMAGE)
