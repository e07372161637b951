# SPDX-License-Identifier: Apache-2.0
"""Steps that start servers in a run's private folder, for benchmarks that send requests to them."""

from __future__ import annotations

from ktrial.bench.benchmark import ADDRESS, PORT, SECRET, Step

NGINX_PACKAGES = {"apt": "nginx-light", "dnf": "nginx", "pacman": "nginx", "zypper": "nginx"}
REDIS_PACKAGES = {"apt": "redis-server", "dnf": "redis", "pacman": "redis", "zypper": "redis"}
#: Blind spots of a benchmark with its clients on the measured machine, and with its clients on another machine.
SHARED = "Server and clients share the CPUs."
APART = "The clients are on another machine: the network between them is a part of what is measured."
#: Name of the page that nginx serves, and its last bytes.
PAGE = "page"
LAST_WORDS = "the end of it\n"
REDIS_SOCKET = "redis.sock"
_REDIS = f"""\
bind {ADDRESS}
port {PORT}
requirepass {SECRET}
save ""
appendonly no
"""
# `user root` is needed: as root, nginx would otherwise lose the right to its own folder; as another user it only warns.
_NGINX = """\
user root;
daemon off;
worker_processes {workers};
pid nginx.pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    client_body_temp_path temporary;
    proxy_temp_path temporary;
    fastcgi_temp_path temporary;
    uwsgi_temp_path temporary;
    scgi_temp_path temporary;
    server {{
        listen {at} backlog=4096;
        root .;
    }}
}}
"""


def nginx(at: str, workers: int, page_bytes: int) -> tuple[Step, ...]:
    """Return the steps that start nginx; `at` is the address and port on which it listens."""
    page = LAST_WORDS.rjust(page_bytes, "x")
    return (
        Step(argv=("tee", "nginx.conf"), stdin=_NGINX.format(at=at, workers=workers).encode()),
        Step(argv=("tee", PAGE), stdin=page.encode()),
        # nginx writes its process id once it listens.
        Step(argv=("nginx", "-p", ".", "-c", "nginx.conf", "-e", "stderr"), ready=("test", "-s", "nginx.pid")),
    )


def redis() -> Step:
    only_socket = ("--port", "0", "--unixsocket", REDIS_SOCKET, "--unixsocketperm", "700")
    return Step(
        argv=("redis-server", *only_socket, "--save", "", "--appendonly", "no"),
        ready=("redis-cli", "-s", REDIS_SOCKET, "ping"),
    )


def redis_for_generator() -> tuple[Step, ...]:
    """Return the steps that start a redis for clients on another machine. Its password is in a file, not in argv."""
    # Without the password, redis answers that it wants one, which shows that it listens.
    ready = ("redis-cli", "-h", ADDRESS, "-p", PORT, "ping")
    return (
        Step(argv=("tee", "redis.conf"), stdin=_REDIS.encode()),
        Step(argv=("redis-server", "redis.conf"), ready=ready),
    )
