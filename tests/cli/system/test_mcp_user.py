# SPDX-License-Identifier: Apache-2.0
"""`ktrial mcp` of a real ordinary user: reads need no root, and a write says what it lacks to become root."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.mcp_session import refusal, run, token_for, told
from tests.support.user import User, ordinary_user

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]
SWAPPINESS = Path("/proc/sys/vm/swappiness")
WANTED = {"settings": ["vm.swappiness=61"]}


@pytest.fixture(scope="module")
def made() -> Iterator[User]:
    with ordinary_user("mcp") as user:
        (packages,) = (user.checkout / ".venv/lib").glob("python*/site-packages")
        copy_package("mcp", packages, set())
        subprocess.run(["chown", "--recursive", f"{user.name}:{user.name}", packages], check=True)
        yield user


@pytest.fixture
def user(made: User) -> Iterator[User]:
    before = SWAPPINESS.read_text()
    yield made
    SWAPPINESS.write_text(before)


@pytest.fixture
def state() -> Iterator[str]:
    """A state folder of root's, apart from the machine's own."""
    folder = Path(tempfile.mkdtemp(prefix="ktrial-state-"))
    yield str(folder / "state")
    shutil.rmtree(folder)


def copy_package(name: str, into: Path, done: set[str], extras: Sequence[str] = ()) -> None:
    """Copy a package and all that it needs, which the set-up of a user leaves out."""
    if name in done:
        return
    done.add(name)
    try:
        package = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return  # needed elsewhere only, such as on another system
    for file in package.files or ():
        target = into / file
        if ".." not in file.parts and not target.exists() and package.locate_file(file).is_file():  # type: ignore[attr-defined]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(package.locate_file(file)), target)
    for line in package.requires or ():
        needed_for = re.search(r"extra == ['\"]([\w.-]+)", line)
        if needed_for is None or needed_for[1] in extras:
            found = re.match(r"([\w.-]+)(?:\[([\w.,-]+)\])?", line)
            assert found is not None, line
            copy_package(found[1].lower().replace("_", "-"), into, done, (found[2] or "").split(","))


@asynccontextmanager
async def session(user: User, state: str) -> AsyncIterator[Client]:
    """A session with a server that the user started."""
    python = str(user.checkout / ".venv/bin/python")
    words = ["-m", "ktrial", "--machine-state", state, "mcp", "--allow-writes", "--knob", "vm.swappiness"]
    first, *rest = user.become()
    server = StdioServerParameters(command=first, args=[*rest, python, *words], cwd=user.home)
    async with Client(stdio_client(server, sys.__stderr__ or sys.stderr)) as client:
        yield client


def test_reads_need_no_root_and_a_write_says_what_is_missing(user: User, state: str) -> None:
    user.allow("/bin/true")

    async def work() -> None:
        async with session(user, state) as client:
            for tool in ("doctor", "suggest", "ledger", "trials"):
                await told(client, tool)
            assert (await told(client, "facts", prefixes=["memory"]))["facts"]
            assert (await told(client, "explain", knob="vm.swappiness"))["id"] == "vm.swappiness"
            assert (await told(client, "why", knobs=["vm.swappiness"]))["origins"]
            token = await token_for(client, "apply", **WANTED)
            assert not user.sudo_log.exists()
            shown = await told(client, "status")
            assert shown["untold"] == ["what is applied and kept: only root can read the journal"]
            assert "transactions" not in shown
            said = await refusal(client, "apply", {**WANTED, "token": token})
            assert said == (
                "sudo did not start the agent as root (exit status 1): a password is required\n"
                "next: let sudo start ktrial-agent without a password (docs/agents.md), "
                "or run the command in a terminal"
            )
            for planned in ({"action": "keep", **WANTED}, {"action": "revert", "transaction": 1}):
                assert await refusal(client, "plan", planned) == said

    run(work)
    assert user.files_of_others() == []


def test_a_rule_for_the_agent_with_its_words_allows_writes(user: User, state: str) -> None:
    user.allow(f"{user.checkout / '.setup/bin/ktrial-agent'} serve --role root --state {state}")
    before = SWAPPINESS.read_text()

    async def work() -> None:
        async with session(user, state) as client:
            token = await token_for(client, "apply", **WANTED)
            done = await told(client, "apply", **WANTED, token=token)
            assert SWAPPINESS.read_text() == "61\n"
            number = done["transaction"]
            token = await token_for(client, "revert", transaction=number)
            await told(client, "revert", transaction=number, token=token)

    run(work)
    assert SWAPPINESS.read_text() == before
