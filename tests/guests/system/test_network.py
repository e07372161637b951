# SPDX-License-Identifier: Apache-2.0
"""The agent's own network on real kernels: its delay, rate and loss are those that were asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ktrial.agent.binary import find_agent
from tests.guests.system.kernels import KERNELS, Kernel, boot, output

SCRIPT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
echo 1 > /proc/sys/kernel/printk
@MODULES@
echo 2 > /proc/sys/net/ipv4/tcp_ecn
echo 131072 > /proc/sys/net/ipv4/tcp_notsent_lowat
echo @BEGIN@
agent batch --role user /requests
echo @END@
poweroff -f
"""
NEEDED = ("veth", "sch_netem", "sch_fq", "tcp_bbr")
RATE = 1_000_000
EXCHANGE = {"mode": "request-response", "rate_per_s": 50, "duration_s": 2, "ramp_s": 0.5}
STREAM = {"mode": "stream", "duration_s": 3, "ramp_s": 1, "rate_bytes_per_s": RATE}
LOADS: dict[str, dict[str, Any]] = {
    "near": EXCHANGE,
    "far": {**EXCHANGE, "delay_us": 20_000},
    "slow": {**STREAM, "congestion": "cubic"},
    "lossy": {**STREAM, "loss_ppm": 20_000, "delay_us": 10_000, "limit_packets": 77},
    "paced": {**STREAM, "congestion": "bbr", "qdisc": "fq", "duration_s": 1},
}


def requests() -> bytes:
    """One load after the other, and two commands: a look at the client's settings, and one without a server."""
    found = [{"do": "load", "load": "tcp", "parameters": parameters, "limit_s": 60} for parameters in LOADS.values()]
    shell = {"environment": {}, "directory": "/", "limit_s": 60}
    look = ["/bin/cat", "/proc/sys/net/ipv4/tcp_notsent_lowat", "/proc/sys/net/ipv4/tcp_congestion_control"]
    ping = ["/bin/ping", "-c", "3", "-q", "198.51.100.1"]
    found.append({"do": "exec", "argv": look, "network": {"congestion": "bbr"}, **shell})
    found.append({"do": "exec", "argv": ping, "network": {"delay_us": 60_000}, **shell})
    return "\n".join(json.dumps({"id": number, **one}) for number, one in enumerate(found)).encode()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_link_is_what_was_asked_for(kernel: Kernel) -> None:
    agent = find_agent().read_bytes()
    console = boot(replace(kernel, modules=NEEDED), SCRIPT, {"/bin/agent": agent, "/requests": requests()})
    replies = [json.loads(line) for line in output(console)]
    assert [reply for reply in replies if "ok" not in reply] == []
    loads = dict(zip(LOADS, (reply["ok"] for reply in replies), strict=False))
    results = {name: reply["results"] for name, reply in loads.items()}
    networks = {name: result["network"] for name, result in results.items()}
    assert {reply["ended"] for reply in loads.values()} == {"done"}

    assert results["far"]["count"] == results["far"]["planned"] == 100
    added_ns = results["far"]["p50_ns"] - results["near"]["p50_ns"]
    assert 18e6 < added_ns < 35e6
    assert networks["far"]["wire"]["to_server"]["options"]["delay_ns"] == 10_000_000
    assert networks["near"]["wire"] is None

    goodput = results["slow"]["received_bytes"] / results["slow"]["window_ns"] * 1e9
    assert 0.8 * RATE < goodput < RATE
    assert results["lossy"]["retransmits"] > 0
    lossy = networks["lossy"]["wire"]["to_client"]
    assert lossy == {
        "kind": "netem",
        "options": {"delay_ns": 5_000_000, "limit_packets": 77, "loss_ppm": 20_000, "rate_bytes_per_s": RATE},
    }

    assert (networks["slow"]["congestion"], networks["paced"]["congestion"]) == ("cubic", "bbr")
    assert networks["slow"]["congestion_version"]["version"] == "2.3"
    assert networks["paced"]["client_qdisc"]["kind"] == networks["paced"]["server_qdisc"]["kind"] == "fq"
    assert networks["paced"]["client_qdisc"]["options"]["limit_packets"] == 10_000
    assert all(not network["settings_not_carried"] for network in networks.values())

    looked, pinged = (reply["ok"] for reply in replies[len(LOADS) :])
    assert looked["stdout"] == "131072\nbbr\n"
    assert looked["network"]["congestion"] == "bbr"
    assert "3 packets received" in pinged["stdout"]
    assert pinged["network"]["wire"]["to_server"]["options"]["delay_ns"] == 30_000_000
