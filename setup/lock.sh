#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lock.sh: makes the lock files anew from pyproject.toml and requirements-dev.in, with the newest releases.
# It is started by hand with the oldest Python that ktrial supports (PYTHON=python3.11 by default).
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3.11}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet 'pip-tools>=7.5'
"$python" -c 'import tomllib; print("\n".join(tomllib.load(open("../pyproject.toml", "rb"))["project"]["dependencies"]))' \
    >"$work/requirements.in"

compile() {
    CUSTOM_COMPILE_COMMAND=setup/lock.sh "$work/venv/bin/pip-compile" --quiet --upgrade --generate-hashes --strip-extras \
        --allow-unsafe --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file "$2" "$1"
}

compile "$work/requirements.in" requirements.lock
compile requirements-dev.in requirements-dev.lock
