# SPDX-License-Identifier: Apache-2.0
"""Root lends the right to real-time priorities, and nothing else, to a session of an ordinary user's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from ktrial.agent.binary import find_agent
from tests.guests.system.kernels import KERNELS, PROLOGUE, boot, output

CYCLICTEST = "/usr/bin/cyclictest"
GRANTED = 80

# The user's session reads requests from a pipe; each reply is printed as it comes.
SCRIPT = (
    PROLOGUE
    + """
echo 'user:x:1000:1000::/tmp:/bin/sh' > /etc/passwd
mkdir -m 1777 -p /tmp
mkfifo -m 666 /tmp/requests
su -s /bin/sh user -c 'exec /agent serve --role user < /tmp/requests' > /tmp/replies &
exec 3> /tmp/requests
ask() {
    replies=$(wc -l < /tmp/replies)
    echo "$1" >&3
    while [ "$(wc -l < /tmp/replies)" = "$replies" ]; do sleep 0.1; done
    echo "REPLY $(tail -n 1 /tmp/replies)"
}
ask '{"id": 1, "do": "hello", "protocol": 1, "head": "test"}'
agent=$(sed -n '1s/.*"pid":\\([0-9]*\\).*/\\1/p' /tmp/replies)
limits() { echo "LIMITS $(cat /proc/$agent/limits | tr -s ' \\n' ' |')"; }
limits
ask '@CYCLICTEST@'
echo '{"id": 1, "do": "grant", "process": '$agent', "realtime_priority": @GRANTED@}' | /agent serve --role root |
    sed 's/^/REPLY /'
limits
ask '@CYCLICTEST@'
ask '@BEYOND@'
ask '@ID@'
echo @END@
poweroff -f
"""
)


def request(*argv: str) -> str:
    """A request to run a command, as a line."""
    fields = {"id": 1, "do": "exec", "argv": argv, "environment": {}, "directory": "/tmp", "limit_s": 60}
    return json.dumps(fields)


def files() -> dict[str, bytes]:
    """The agent, and cyclictest with its libraries, by their paths in the guest."""
    listed = subprocess.run(["ldd", CYCLICTEST], check=True, capture_output=True, text=True).stdout
    libraries = [word for word in listed.split() if word.startswith("/")]
    return {"/agent": find_agent().read_bytes(), **{path: Path(path).read_bytes() for path in (CYCLICTEST, *libraries)}}


def test_cyclictest_runs_as_an_ordinary_user() -> None:
    kernel = KERNELS[-1]

    def cyclictest(priority: int) -> str:
        return request(CYCLICTEST, "-q", "-l", "20", "-i", "1000", "-p", str(priority), "--default-system")

    script = SCRIPT.replace("@CYCLICTEST@", cyclictest(GRANTED)).replace("@BEYOND@", cyclictest(GRANTED + 1))
    script = script.replace("@ID@", request("/bin/busybox", "id", "-u")).replace("@GRANTED@", str(GRANTED))
    lines = output(boot(kernel, script, files()))
    replies: list[Any] = [json.loads(line.removeprefix("REPLY ")) for line in lines if line.startswith("REPLY ")]
    hello, before, granted, after, beyond, identity = replies
    assert hello["ok"]["uid"] == 1000
    assert before["ok"]["exit"] == {"status": 1}
    assert "Unable to change scheduling policy" in before["ok"]["stderr"]
    assert granted["ok"] == {"process": hello["ok"]["pid"], "realtime_priority": GRANTED}
    assert after["ok"]["exit"] == {"status": 0}, after
    assert f"P:{GRANTED}" in after["ok"]["stdout"]
    assert beyond["ok"]["exit"] == {"status": 1}
    assert f"failed to set priority to {GRANTED + 1}" in beyond["ok"]["stderr"]
    assert identity["ok"]["stdout"] == "1000\n"
    first, second = ([row.strip() for row in line.split("|")] for line in lines if line.startswith("LIMITS "))
    changed = {(old, new) for old, new in zip(first, second, strict=True) if old != new}
    assert changed == {("Max realtime priority 0 0", f"Max realtime priority {GRANTED} {GRANTED}")}
