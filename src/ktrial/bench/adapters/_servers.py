# SPDX-License-Identifier: Apache-2.0
"""Steps that start servers in a run's private folder, for benchmarks that send requests to them."""

from __future__ import annotations

from ktrial.bench.benchmark import Step

NGINX_PACKAGES = {"apt": "nginx-light", "dnf": "nginx", "pacman": "nginx", "zypper": "nginx"}
REDIS_PACKAGES = {"apt": "redis-server", "dnf": "redis", "pacman": "redis", "zypper": "redis"}
#: Name of the page that nginx serves, and how it ends.
PAGE = "page"
LAST_WORDS = "the end of it\n"
REDIS_SOCKET = "redis.sock"
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
        listen 127.0.0.1:{port} backlog=4096;
        root .;
    }}
}}
"""


def nginx(port: int, workers: int, page_bytes: int) -> tuple[Step, ...]:
    page = LAST_WORDS.rjust(page_bytes, "x")
    return (
        Step(argv=("tee", "nginx.conf"), stdin=_NGINX.format(port=port, workers=workers).encode()),
        Step(argv=("tee", PAGE), stdin=page.encode()),
        # It writes its process id once it listens.
        Step(argv=("nginx", "-p", ".", "-c", "nginx.conf", "-e", "stderr"), ready=("test", "-s", "nginx.pid")),
    )


def redis() -> Step:
    only_socket = ("--port", "0", "--unixsocket", REDIS_SOCKET, "--unixsocketperm", "700")
    return Step(
        argv=("redis-server", *only_socket, "--save", "", "--appendonly", "no"),
        ready=("redis-cli", "-s", REDIS_SOCKET, "ping"),
    )
