#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# prepare.sh CHECKOUT run|agent|dev: makes everything that a start from the checkout needs. `run` leaves out the agent where
# nothing here can build it; `agent` does not, and `dev` adds the tools of ./check.
# Each part is made aside, put in place by one rename, and stamped last: an interrupt at any point leaves either the
# old part or the new one, and the next start goes on from there.
set -eu
umask 022
root=$1
mode=$2
with_agent=yes
# shellcheck source=setup/common.sh
. "$root/setup/common.sh"
# shellcheck source=setup/tools.sh
. "$root/setup/tools.sh"
# shellcheck source=setup/ready.sh
. "$root/setup/ready.sh"

require_tools() {
    # shellcheck disable=SC2046 # one word per missing tool
    set -- $(as_owner "$root" /bin/sh "$root/setup/missing.sh" "$root")
    [ $# -gt 0 ] || return 0
    if is_root && [ "$(package_manager)" = apt ]; then
        # shellcheck source=setup/debian.sh
        . "$root/setup/debian.sh"
        install_for_words "$@"
        # shellcheck disable=SC2046
        set -- $(as_owner "$root" /bin/sh "$root/setup/missing.sh" "$root")
        [ $# -gt 0 ] || return 0
    fi
    # Root, which started this as a user, installs what is named.
    if [ "${KTRIAL_TELL_PACKAGES:-}" = yes ] && [ "$(package_manager)" = apt ]; then
        packages_of apt "$@"
        exit 75
    fi
    if [ "$mode" = run ] && is_for_the_agent "$@"; then
        with_agent=no
        [ -f "$root/.setup/stamp-without-agent" ] || tell_without_agent
        return 0
    fi
    explain_missing "$@"
    exit 1
}

# is_for_the_agent WORD…: whether only the agent needs these tools.
is_for_the_agent() {
    for word in "$@"; do
        case $word in
            rust | cc | libc) ;;
            *) return 1 ;;
        esac
    done
}

tell_without_agent() {
    say 'setting up without the agent, which needs a Rust compiler, a C compiler and a libc: what reads or changes this machine will not run'
    printf '  next: to build it, run  sh %s/setup/prepare.sh %s agent\n' "$root" "$root" >&2
}

# Waits until no other set-up runs in this checkout. Its lock ends with its last process: if somebody ended a start, its
# build goes on, and the next start uses it.
take_lock() {
    mkdir -p .setup/bin
    exec 9>>.setup/lock
    waited_s=0
    until try_lock; do
        [ $((waited_s % 30)) != 0 ] || tell_waiting
        sleep 1 9>&-
        waited_s=$((waited_s + 1))
    done
    date '+%H:%M:%S' >.setup/lock
}

try_lock() {
    locked=0
    flock -n 9 || locked=$?
    [ "$locked" -le 1 ] || fail "cannot lock $root/.setup/lock: flock ended with status $locked"
    return "$locked"
}

# The lock file holds the time at which its holder began, and the steps that it has begun.
tell_waiting() {
    if [ "$waited_s" != 0 ]; then
        say "still waiting, for $waited_s s"
        return 0
    fi
    begun=$(sed -n 1p .setup/lock)
    steps=$(sed 1d .setup/lock | tr '\n' ',' | sed 's/,$//; s/,/, /g')
    say "waiting: another start of ktrial has been setting up this checkout since ${begun:-just now}${steps:+ ($steps)}"
    say 'if somebody ended that start, its set-up continues in the background, and this start uses the result'
}

# step WHAT: tells that a part of the set-up begins, also those who wait for it.
step() {
    say "$*"
    printf '%s\n' "$*" >>.setup/lock
}

# hash_of PATH…: one hash over the names and contents of all files below.
hash_of() {
    find "$@" -type f ! -name '*.pyc' -print | LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

# is_stamped NAME KEY: whether that part was made for exactly this.
is_stamped() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

stamp() {
    printf '%s\n' "$2" >"$1.new"
    mv -f "$1.new" "$1"
}

# A new environment is made in a directory of its own; .venv is a link to it, exchanged in one step.
make_environment() {
    python=$(find_python) || fail 'no usable Python found'
    key="$root $python $(hash_of setup/requirements.lock)"
    if [ ! -x .venv/bin/python ] || ! is_stamped .venv/ktrial-stamp "$key"; then
        step "making the Python environment with $python"
        environment=$(mktemp -d .setup/venv.XXXXXX)
        chmod 755 "$environment"
        "$python" -I -m venv "$root/$environment" >&2 9>&-
        install_locked "$root/$environment" setup/requirements.lock
        site=$("$root/$environment/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        printf '%s\n' "$root/src" >"$site/ktrial.pth"
        stamp "$environment/ktrial-stamp" "$key"
        exchange_environment "$environment"
    fi
    [ "$mode" = dev ] || return 0
    key=$(hash_of setup/requirements-dev.lock)
    if ! is_stamped .venv/ktrial-stamp-dev "$key"; then
        step 'adding the tools of ./check'
        # Most of what these bring is never imported: what is gets compiled then.
        install_locked "$root/.venv" setup/requirements-dev.lock --no-compile
        stamp .venv/ktrial-stamp-dev "$key"
    fi
}

exchange_environment() {
    # A directory of that name is an environment that somebody made by hand.
    if [ -d .venv ] && [ ! -L .venv ]; then fail "$root/.venv is not ktrial's own: move it away"; fi
    ln -sfn "$1" ".setup/venv-link.$$"
    mv -fT ".setup/venv-link.$$" .venv
    for old in .setup/venv.*; do
        [ "$old" = "$1" ] || rm -rf "$old"
    done
}

# install_locked ENVIRONMENT FILE [OPTION…]
install_locked() {
    installing="$1/bin/python"
    listed=$2
    shift 2
    "$installing" -I -m pip install --quiet --disable-pip-version-check --no-input --require-hashes \
        --only-binary :all: --no-deps -r "$listed" "$@" >&2 9>&- || stop_at_pip
}

# pip names the file or the host that failed, among much else.
stop_at_pip() {
    say "cannot install the Python packages of $listed: pip's messages are above"
    echo "  next: check the network and that $root has 1 GB of free space, then start again" >&2
    exit 1
}

# RUSTFLAGS of the environment would replace those that make the agent static. Who starts from a checkout waits for the
# build: it leaves out what makes that of a wheel small and long, the optimisation across crates by one thread.
build_agent() {
    rust=$(find_rust) || fail 'no usable Rust compiler found'
    cargo=${rust% *}
    rustc=${rust#* }
    host=$("$rustc" -vV | sed -n 's/^host: //p')
    key="$root $rustc $("$rustc" --version) $(hash_of agent/Cargo.toml agent/Cargo.lock agent/.cargo agent/src)"
    if [ -x .setup/bin/ktrial-agent ] && is_stamped .setup/agent-stamp "$key"; then return 0; fi
    step 'building the agent (release mode)'
    (
        unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS
        export CARGO_BUILD_TARGET="$host" RUSTC="$rustc"
        export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
        cd agent
        "$cargo" build --release --locked --bin ktrial-agent --target-dir "$root/agent/target" >&2 9>&-
    ) || fail "the agent did not build; cargo's messages are above"
    cp "agent/target/$host/release/ktrial-agent" .setup/bin/ktrial-agent.new
    mv -f .setup/bin/ktrial-agent.new .setup/bin/ktrial-agent
    stamp .setup/agent-stamp "$key"
}

# The two long parts at once. An interrupt reaches both sides of a pipe, which it does not for a job in the background.
make_environment_beside_agent() {
    {
        [ "$with_agent" = no ] || build_agent
        echo built
    } | {
        make_environment
        [ "$(cat)" = built ]
    }
}

# Compiles the modules, so that a start as root, which writes no bytecode, finds it. (The catalog's fast form is kept in
# the user's cache by ktrial itself.)
compile_python() {
    .venv/bin/python -I -m compileall -q src/ktrial >&2 9>&-
}

# Set up by another user, with a Python in a folder that this one may not enter.
refuse_python_of_another() {
    if [ -w .setup ] || [ ! -L .venv/bin/python ] || [ -x .venv/bin/python ]; then return 0; fi
    say "$root was set up with a Python that you cannot reach: $(readlink -m .venv/bin/python)"
    echo '  next: set it up in a copy of your own' >&2
    exit 1
}

cd "$root"
refuse_python_of_another
if [ "${KTRIAL_PREPARE_AS_OWNER:-}" != yes ]; then
    require_tools
    if is_foreign "$root"; then
        as_owner "$root" env KTRIAL_PREPARE_AS_OWNER=yes /bin/sh "$root/setup/prepare.sh" "$root" "$mode"
        exit 0
    fi
fi
take_lock
# A file dated in the future is newer than any stamp: no more than three rounds, and the next start looks again.
for _ in 1 2 3; do
    # As old as the beginning of the round: a file changed during it counts as newer, and another round is made.
    printf '%s\n' "$root" >.setup/stamp.new
    make_environment_beside_agent
    compile_python
    [ -n "$(changed_since .setup/stamp.new)" ] || break
done
if [ "$with_agent" = yes ]; then
    mv -f .setup/stamp.new .setup/stamp
    rm -f .setup/stamp-without-agent
else
    mv -f .setup/stamp.new .setup/stamp-without-agent
fi
