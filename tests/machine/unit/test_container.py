# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kit.errors import BadInput
from ktrial.machine.container import DEFAULT_IMAGE, ContainerRequest, containerfile, parse_tools


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("container", ContainerRequest(None, DEFAULT_IMAGE)),
        ("container=debian:13", ContainerRequest(None, "debian:13")),
        ("container=docker:debian:13", ContainerRequest("docker", "debian:13")),
        ("container=podman:", ContainerRequest("podman", DEFAULT_IMAGE)),
        ("container=distrobox:games", ContainerRequest("distrobox", "games")),
        (
            "container=localhost:5000/tools@sha256:" + "a" * 64,
            ContainerRequest(None, "localhost:5000/tools@sha256:" + "a" * 64),
        ),
    ],
)
def test_what_can_be_asked_for(text: str, wanted: ContainerRequest) -> None:
    assert parse_tools(text) == wanted


@pytest.mark.parametrize(
    "text", ["", "image", "container=", "container=distrobox:", "container=--privileged", "container=a b"]
)
def test_what_cannot(text: str) -> None:
    with pytest.raises(BadInput, match="--tools"):
        parse_tools(text)


def test_a_wrong_name_is_told_by_its_kind() -> None:
    with pytest.raises(BadInput, match="'a b' is not the name of a distrobox"):
        parse_tools("container=distrobox:a b")
    with pytest.raises(BadInput, match="'a b' is not the name of an image"):
        parse_tools("container=docker:a b")


def test_the_image_has_each_package_once() -> None:
    text = containerfile("debian:13", ["rt-tests", "", "fio rt-tests"])
    assert text.startswith("FROM debian:13\nRUN apt-get update && ")
    assert "--no-install-recommends fio rt-tests && " in text


def test_a_base_is_no_place_for_another_line() -> None:
    with pytest.raises(BadInput, match="--base"):
        containerfile("debian\nRUN id", [])
