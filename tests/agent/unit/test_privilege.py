# SPDX-License-Identifier: Apache-2.0
"""On whose behalf root acts, and which agents are trusted."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from ktrial.agent.root import check_trusted, invoking_user, root_transport
from ktrial.agent.transport import Transport
from ktrial.kit.errors import PrivilegeMissing, Refused

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked for root."""
    for name in ("SUDO_UID", "PKEXEC_UID", "DOAS_USER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "told,uid",
    [
        ({"SUDO_UID": str(NOBODY.pw_uid)}, NOBODY.pw_uid),
        ({"PKEXEC_UID": str(NOBODY.pw_uid)}, NOBODY.pw_uid),
        ({"DOAS_USER": "nobody"}, NOBODY.pw_uid),
        ({"DOAS_USER": "nobody", "SUDO_UID": "0"}, NOBODY.pw_uid),
        ({"DOAS_USER": "root", "SUDO_UID": str(NOBODY.pw_uid)}, NOBODY.pw_uid),
        ({"SUDO_UID": "0"}, None),
        ({"DOAS_USER": "root"}, None),
        ({"SUDO_UID": "", "PKEXEC_UID": ""}, None),
        ({"USER": "nobody"}, None),
    ],
)
def test_the_invoking_user(monkeypatch: pytest.MonkeyPatch, told: dict[str, str], uid: int | None) -> None:
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert invoking_user() == uid
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert invoking_user() is None


@pytest.mark.parametrize(
    "told",
    [
        {"SUDO_UID": "-1"},
        {"SUDO_UID": "4000000000"},
        {"SUDO_UID": "9" * 40},
        {"DOAS_USER": "no such user"},
        {"SUDO_UID": "0", "PKEXEC_UID": "x"},
        # doas keeps the caller's own variables where its rule says so: the caller may not name another user.
        {"SUDO_UID": "1", "DOAS_USER": "nobody"},
    ],
)
def test_an_invoking_user_who_cannot_be_told_is_no_root(monkeypatch: pytest.MonkeyPatch, told: dict[str, str]) -> None:
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(PrivilegeMissing, match="cannot run as root: "):
        invoking_user()


@pytest.mark.parametrize("mode,trusted", [(0o755, True), (0o700, True), (0o757, False), (0o777, False)])
@pytest.mark.parametrize("what", ["agent", "folder"])
def test_an_agent_that_others_can_write_is_not_trusted(tmp_path: Path, what: str, mode: int, trusted: bool) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    agent = folder / "ktrial-agent"
    agent.touch()
    agent.chmod(0o755)
    (agent if what == "agent" else folder).chmod(mode)
    if trusted:
        check_trusted(agent, os.getuid())
        return
    with pytest.raises(Refused, match="can be changed by somebody else"):
        check_trusted(agent, os.getuid())


def test_a_sticky_file_can_be_written_all_the_same(tmp_path: Path) -> None:
    agent = tmp_path / "ktrial-agent"
    agent.touch()
    agent.chmod(0o1777)
    with pytest.raises(Refused, match="can be changed by somebody else"):
        check_trusted(agent, os.getuid())


@pytest.mark.parametrize("what", ["agent", "folder"])
def test_an_agent_that_a_group_can_write_is_trusted_only_where_nobody_else_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    agent = tmp_path / "bin" / "ktrial-agent"
    agent.parent.mkdir(mode=0o755)
    agent.touch(mode=0o755)
    writable = agent if what == "agent" else agent.parent
    writable.chmod(0o775)
    gid = 4321 if os.geteuid() == 0 else os.getgid()
    os.chown(writable, -1, gid)
    user = pwd.struct_passwd(("me", "x", os.getuid(), gid, "", "/", "/bin/sh"))
    monkeypatch.setattr("pwd.getpwuid", lambda uid: user)

    def is_trusted(*group: object) -> bool:
        monkeypatch.setattr("grp.getgrgid", lambda of: grp.struct_group(group))
        try:
            check_trusted(agent, os.getuid())
        except Refused as refused:
            assert str(writable) in refused.message
            return False
        return True

    assert is_trusted("me", "x", gid, [])
    assert is_trusted("me", "x", gid, ["me"])
    assert not is_trusted("me", "x", gid, ["me", "you"])
    assert not is_trusted("staff", "x", gid, [])


def test_a_link_to_a_place_of_others_is_not_trusted(tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    (open_folder / "agent").touch()
    open_folder.chmod(0o777)
    link = tmp_path / "ktrial-agent"
    link.symlink_to(open_folder / "agent")
    with pytest.raises(Refused):
        check_trusted(link, os.getuid())


@pytest.mark.parametrize(
    "terminal,display,sudo,asked",
    [
        (True, ":0", "exit 1", "sudo"),
        (False, "", "exit 1", "sudo"),
        (False, ":0", "exit 1", "pkexec"),
        (False, ":0", '[ "$*" = "-n -- $AGENT --version" ]', "sudo"),
    ],
)
def test_without_a_terminal_a_window_asks_unless_sudo_needs_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, display: str, sudo: str, asked: str
) -> None:
    """As when Steam starts `ktrial with` for a game."""
    for name, script in {"sudo": sudo, "pkexec": "exit 0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    agent = tmp_path / "ktrial-agent"
    agent.touch(mode=0o755)
    monkeypatch.setenv("AGENT", str(agent))
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("ktrial.agent.root._SYSTEM_PATH", str(tmp_path))
    monkeypatch.setattr("ktrial.agent.root._has_terminal", lambda: terminal)
    said: list[str] = []
    transport = root_transport(agent, (), "playing", may_ask=True, say=said.append)
    assert transport.asker == asked
    assert said == [f"playing needs root: asking {asked}"]
    transport.close()


SUDO = """#!/bin/sh
case $* in
    '-n -- '*) [ -e {folder}/nopasswd ] || exit 1; shift 2 ;;
    '-k -S -p  -- '*) read -r word; [ "$word" = "pass word" ] || exit 1; shift 5 ;;
    '-- '*) [ -e {folder}/nopasswd ] || exit 1; shift ;;
esac
exec "$@"
"""


@pytest.mark.parametrize("needs_none", [False, True])
def test_sudo_gets_a_password_that_was_given_and_the_agent_never_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_none: bool
) -> None:
    for name, script in {
        "sudo": SUDO.format(folder=tmp_path),
        "ktrial-agent": "#!/bin/sh\nread -r word; echo $word\n",
    }.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    if needs_none:
        (tmp_path / "nopasswd").touch()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("ktrial.agent.root._SYSTEM_PATH", f"{tmp_path}:/usr/bin:/bin")

    def start(password: str) -> Transport:
        return root_transport(
            tmp_path / "ktrial-agent", (), "tuning", may_ask=True, say=lambda _: None, password=lambda: password
        )

    transport = start("pass word")
    transport.send(b"hello\n")
    assert (transport.asker, transport.receive()) == ("sudo", b"hello\n")
    transport.close()
    if not needs_none:
        with pytest.raises(PrivilegeMissing, match="sudo did not accept the password"):
            start("wrong")
