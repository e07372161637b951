# SPDX-License-Identifier: Apache-2.0
"""Where the server of a benchmark listens if another machine sends its load."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from ktrial.bench.remote_load import ServerAddress
from ktrial.cli.app_load import parse_address, send_load_from
from ktrial.cli.shared.unattended import refuse_elsewhere
from ktrial.kit.errors import BadInput, KtrialError, Refused
from ktrial.trial.protocol.file import ArmFile, TrialFile


@pytest.mark.parametrize(
    "text, address",
    [
        ("10.0.0.5", ServerAddress("10.0.0.5")),
        ("10.0.0.5:7000", ServerAddress("10.0.0.5", 7000)),
        ("fd00::5", ServerAddress("fd00::5")),
        ("[fd00::5]:7000", ServerAddress("fd00::5", 7000)),
        ("[fd00::5]", ServerAddress("fd00::5")),
    ],
)
def test_addresses(text: str, address: ServerAddress) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text, why",
    [
        ("web1", "expected an IP address"),
        ("", "expected an IP address"),
        ("0.0.0.0", "is not the address of a single machine"),
        ("::", "is not the address of a single machine"),
        ("224.0.0.1", "is not the address of a single machine"),
        ("127.0.0.1:7000", "no other machine reaches"),
        ("[::1]:7000", "no other machine reaches"),
        ("fe80::1", "one network link only"),
        ("10.0.0.5:80", "expected a port from 1024 to 65535"),
        ("10.0.0.5:", "expected a port from 1024 to 65535"),
        ("10.0.0.5:seven", "expected a port from 1024 to 65535"),
    ],
)
def test_addresses_that_no_generator_could_use(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        parse_address(text)


def app(**fields: Any) -> Any:
    return SimpleNamespace(**{"generator": None, "host": None, "say": lambda _: None, **fields})


@pytest.mark.parametrize(
    "word, address, tools, why",
    [
        (None, "10.0.0.5", None, "--load-address requires --load-from"),
        ("load1", None, None, "--load-from load1: expected ssh:NAME"),
        ("ssh:", None, None, "--load-from ssh:: not the name of a machine"),
        ("ssh:-oProxyCommand=x", None, None, "not the name of a machine"),
        ("ssh:load1", None, "container", "cannot combine --tools with --load-from"),
    ],
)
def test_words_that_name_no_generator(word: str | None, address: str | None, tools: str | None, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        send_load_from(app(), word, address, tools)


def test_a_guest_has_no_server_for_another_machine() -> None:
    guest = SimpleNamespace(word="guest:lab")
    with pytest.raises(BadInput, match="not on --host guest:lab"):
        send_load_from(app(host=guest), "ssh:load1", None)


def test_a_plan_cannot_carry_the_load() -> None:
    file = TrialFile(name="t", suite="wrk-nginx", arms={"control": ArmFile(), "a": ArmFile()}, load_from="ssh:load1")
    with pytest.raises(Refused, match="a plan cannot carry a load from another machine"):
        refuse_elsewhere(app(on_this_machine=False), file)
    refuse_elsewhere(app(on_this_machine=False), replace(file, load_from=UNSET))


def ssh_that_prints(folder: Path, text: str, status: int = 0) -> str:
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\necho '{text}'\nexit {status}\n")
    program.chmod(0o755)
    return str(program)


def test_the_address_comes_from_the_configuration_of_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The server is here, so its address is this machine's on the way to the generator.
    monkeypatch.setenv("KTRIAL_SSH", ssh_that_prints(tmp_path, "user me\nhostname 127.0.0.1"))
    with pytest.raises(
        BadInput, match=r"ssh connects to load1 at 127\.0\.0\.1, but no other machine reaches"
    ) as caught:
        send_load_from(app(), "ssh:load1", None)
    assert caught.value.hint == "add --load-address ADDRESS, the address at which load1 reaches this machine"
    monkeypatch.setenv("KTRIAL_SSH", ssh_that_prints(tmp_path, "hostname no-such-machine.invalid"))
    with pytest.raises(BadInput, match=r"cannot find the address of no-such-machine.invalid: "):
        send_load_from(app(), "ssh:load1", None)
    monkeypatch.setenv("KTRIAL_SSH", ssh_that_prints(tmp_path, "bad configuration", 255))
    with pytest.raises(KtrialError, match="cannot read ssh's configuration for load1"):
        send_load_from(cast("Any", app()), "ssh:load1", None)
