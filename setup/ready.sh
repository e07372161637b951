# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Tells whether the set-up is up to date, with one process. Sourced with $root set to the checkout.
: "${root:?}"

# changed_since STAMP: prints one of the inputs of the set-up that is newer. Directories count, so that a removed file
# is seen too; an input that is missing counts as changed. What find says on stderr does not: a library in LD_PRELOAD that
# cannot be loaded, as games have them, makes every program say something there.
changed_since() {
    (cd "$root" && exec find setup agent/Cargo.toml agent/Cargo.lock agent/.cargo agent/src \
        -newer "$1" -print -quit 2>/dev/null) || echo missing
}

# The stamp holds the place that the checkout was set up in: a moved or copied one is set up anew.
is_ready() {
    [ -x "$root/.venv/bin/python" ] && [ -x "$root/.setup/bin/ktrial-agent" ] && [ -f "$root/.setup/stamp" ] || return 1
    IFS= read -r place <"$root/.setup/stamp" && [ "$place" = "$root" ] || return 1
    [ -z "$(changed_since .setup/stamp)" ]
}

# The same for all but the agent, as long as there is no compiler to build it with.
is_ready_without_agent() {
    [ -x "$root/.venv/bin/python" ] && [ -f "$root/.setup/stamp-without-agent" ] || return 1
    ! command -v cargo >/dev/null 2>&1 && [ ! -x "${HOME:-/nonexistent}/.cargo/bin/cargo" ] || return 1
    IFS= read -r place <"$root/.setup/stamp-without-agent" && [ "$place" = "$root" ] || return 1
    [ -z "$(changed_since .setup/stamp-without-agent)" ]
}
