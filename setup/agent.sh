#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# agent.sh CHECKOUT ARCHITECTURE: builds the agent for another architecture, as
# .setup/bin/ktrial-agent-ARCHITECTURE; or says what that needs, with the commands that install it.
set -eu
umask 022
root=$1
architecture=$2
# shellcheck source=setup/common.sh
. "$root/setup/common.sh"
# shellcheck source=setup/tools.sh
. "$root/setup/tools.sh"

case $architecture in
    aarch64) system=linux-gnu cpu=aarch64 debian=arm64 ;;
    armv7) system=linux-gnueabihf cpu=arm debian=armhf ;;
    x86_64) system=linux-gnu cpu=x86_64 debian=amd64 ;;
    *) fail "there is no agent for $architecture" ;;
esac
target=$architecture-unknown-$system
linker=$cpu-$system-gcc

if is_foreign "$root"; then
    as_owner "$root" /bin/sh "$root/setup/agent.sh" "$root" "$architecture"
    exit 0
fi

# What is missing, a word each: rust, std, linker, libc.
missing_for_target() {
    if rust=$(find_rust); then
        [ -d "$("${rust#* }" --print sysroot)/lib/rustlib/$target/lib" ] || echo std
    else
        echo rust
    fi
    if ! command -v "$linker" >/dev/null 2>&1; then
        echo linker
    elif ! can_link_static_for_target; then
        echo libc
    fi
}

can_link_static_for_target() {
    link_directory=$(mktemp -d) || return 1
    printf 'int main(void) { return 0; }\n' >"$link_directory/a.c"
    link_result=0
    "$linker" -static -o "$link_directory/a" "$link_directory/a.c" >/dev/null 2>&1 || link_result=1
    rm -rf "$link_directory"
    return "$link_result"
}

# install_for_target WORD: the command that brings it, for the package manager that is here.
install_for_target() {
    manager=$(package_manager) || manager=unknown
    case $manager:$1 in
        *:rust) install_command "$manager" rust ;;
        *:std) install_std ;;
        apt:linker | apt:libc)
            echo "sudo apt-get install gcc-$(printf '%s' "$cpu-$system" | tr _ -) libc6-dev-$debian-cross" ;;
        *:linker | *:libc) [ "$architecture" = armv7 ] || install_elsewhere "$manager:$1" ;;
    esac
}

# For armv7, only the packages of Debian are known.
install_elsewhere() {
    case $1 in
        dnf:linker) echo "sudo dnf install gcc-$architecture-linux-gnu" ;;
        pacman:linker) echo "sudo pacman -S --needed $architecture-linux-gnu-gcc" ;;
        pacman:libc) echo "sudo pacman -S --needed $architecture-linux-gnu-glibc" ;;
        zypper:linker) echo "sudo zypper install cross-$architecture-gcc13" ;;
    esac
}

# Debian packs the standard library with its compiler, for each of its own architectures; others have rustup.
install_std() {
    packaged=$(dpkg-query --search "${rust#* }" 2>/dev/null | cut -d: -f1) || packaged=
    case $packaged in
        rustc | rustc-*) echo "sudo dpkg --add-architecture $debian && sudo apt-get update &&" \
            "sudo apt-get install libstd-$(printf '%s' "$packaged" | sed 's/^rustc/rust/')-dev:$debian" ;;
        *) echo "rustup target add $target" ;;
    esac
}

# shellcheck disable=SC2046 # one word per missing thing
set -- $(missing_for_target)
rust=$(find_rust) || rust='none none'
if [ $# -gt 0 ]; then
    say "cannot build the agent for $architecture here; these are missing:"
    for word in "$@"; do
        case $word in
            rust) meaning="a Rust compiler from $oldest_rust with cargo" ;;
            std) meaning="Rust's standard library for $target" ;;
            linker) meaning="a C compiler for linking, $linker" ;;
            libc) meaning="a static C library for $architecture" ;;
        esac
        command=$(install_for_target "$word")
        printf '  - %s%s\n' "$meaning" "${command:+: $command}" >&2
    done
    exit 1
fi

mkdir -p "$root/.setup/bin"
exec 9>"$root/.setup/lock"
flock 9
say "building the agent for $architecture (release mode)"
variable=CARGO_TARGET_$(printf '%s' "$target" | tr 'a-z-' 'A-Z_')_LINKER
# They replace those of agent/.cargo/config.toml. No folder of this machine gets into the program, so that it is the same
# bytes wherever it is built.
separator=$(printf '\037')
flags=-Ctarget-feature=+crt-static$separator--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo
flags=$flags$separator--remap-path-prefix=$root=/ktrial
(
    unset RUSTFLAGS CARGO_BUILD_RUSTFLAGS
    export CARGO_ENCODED_RUSTFLAGS="$flags"
    export "$variable=$linker" CARGO_BUILD_TARGET="$target" RUSTC="${rust#* }"
    cd "$root/agent"
    "${rust% *}" build --release --locked --bin ktrial-agent --target-dir "$root/agent/target" >&2 9>&-
) || fail "the agent for $architecture did not build; cargo's messages are above"
cp "$root/agent/target/$target/release/ktrial-agent" "$root/.setup/bin/ktrial-agent-$architecture.new"
mv -f "$root/.setup/bin/ktrial-agent-$architecture.new" "$root/.setup/bin/ktrial-agent-$architecture"
