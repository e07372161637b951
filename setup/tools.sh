# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Finds the programs that the set-up needs and names the missing ones. Sourced after common.sh.

# Below this directory the scripts look for what kind of system this is. Tests set it; empty means the real one.
system_root=${system_root:-}
oldest_python=3.11
oldest_rust=1.85

# PATH and the places that a login shell adds to it and that sudo or a desktop start leaves out: rustup's before it, as
# rustup itself has it, so that every start finds the same compiler.
search_path() {
    [ ! -d "${HOME:-/nonexistent}/.cargo/bin" ] || printf '%s:' "$HOME/.cargo/bin"
    printf '%s' "$PATH"
    for more in "${HOME:-/nonexistent}/.local/bin" /home/linuxbrew/.linuxbrew/bin; do
        [ ! -d "$more" ] || printf ':%s' "$more"
    done
    printf '\n'
}

# programs NAME…: every executable of these names in search_path, in its order, one per line.
programs() {
    programs_names=$*
    search_path | tr ':' '\n' | while IFS= read -r directory; do
        for name in $programs_names; do
            [ ! -f "$directory/$name" ] || [ ! -x "$directory/$name" ] || printf '%s\n' "$directory/$name"
        done
    done
}

# is_at_least WANTED FOUND: compares major.minor.
is_at_least() {
    wanted_minor=${1#*.}
    found_minor=${2#*.}
    found_minor=${found_minor%%.*}
    case ${2%%.*}$found_minor in '' | *[!0-9]*) return 1 ;; esac
    [ "${2%%.*}" -gt "${1%%.*}" ] || { [ "${2%%.*}" -eq "${1%%.*}" ] && [ "$found_minor" -ge "$wanted_minor" ]; }
}

# Prints the first Python that is new enough and can make environments; `old` or `no-venv` tell what was lacking.
find_python() {
    found_lack=none
    for python in $(programs python3 python3.14 python3.13 python3.12 python3.11); do
        version=$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        if ! is_at_least "$oldest_python" "$version"; then
            [ "$found_lack" != none ] || found_lack=old
        elif ! "$python" -I -c 'import ensurepip, venv' 2>/dev/null; then
            found_lack=no-venv
        else
            "$python" -I -c 'import os, sys; print(os.path.realpath(sys.executable))'
            return 0
        fi
    done
    printf '%s\n' "$found_lack"
    return 1
}

# Prints "CARGO RUSTC" of the first pair that is new enough, else `none` or `old`. Ubuntu packs newer ones as cargo-1.NN.
find_rust() {
    rust_lack=none
    # shellcheck disable=SC2046 # one word per program
    for cargo in $(programs cargo $(versioned_cargos)); do
        suffix=${cargo##*/cargo}
        rustc=${cargo%/*}/rustc$suffix
        [ -x "$rustc" ] || rustc=$(command -v "rustc$suffix") || continue
        version=$("$rustc" --version 2>/dev/null) || continue
        version=${version#rustc }
        if is_at_least "$oldest_rust" "${version%% *}"; then
            printf '%s %s\n' "$cargo" "$rustc"
            return 0
        fi
        rust_lack=old
    done
    printf '%s\n' "$rust_lack"
    return 1
}

versioned_cargos() {
    for versioned in /usr/bin/cargo-[0-9]*.[0-9]*; do
        [ ! -x "$versioned" ] || printf '%s\n' "${versioned##*/}"
    done
}

# can_link -static|-dynamic: whether cc makes a program that way.
can_link() {
    link_directory=$(mktemp -d) || return 1
    printf 'int main(void) { return 0; }\n' >"$link_directory/a.c"
    link_result=0
    case $1 in
        -static) cc -static -o "$link_directory/a" "$link_directory/a.c" >/dev/null 2>&1 || link_result=1 ;;
        *) cc -o "$link_directory/a" "$link_directory/a.c" >/dev/null 2>&1 || link_result=1 ;;
    esac
    rm -rf "$link_directory"
    return "$link_result"
}

# Prints a word for each thing that is missing: python venv rust cc libc flock.
missing_tools() {
    if ! lack=$(find_python); then
        if [ "$lack" = no-venv ]; then echo venv; else echo python; fi
    fi
    find_rust >/dev/null || echo rust
    if ! command -v cc >/dev/null 2>&1; then
        echo cc
        echo libc
    elif ! can_link -static; then
        # A dynamic program failing too means that the C library's own headers and start files are missing.
        echo libc
    fi
    command -v flock >/dev/null 2>&1 || echo flock
}

# in_words WORD…: what the words of missing_tools mean.
in_words() {
    for word in "$@"; do
        case $word in
            python) printf 'Python %s or newer\n' "$oldest_python" ;;
            venv) printf "Python's venv module\n" ;;
            rust) printf 'a Rust compiler from %s with cargo\n' "$oldest_rust" ;;
            cc) printf 'a C compiler (cc) for linking\n' ;;
            libc) printf 'a static C library (libc.a)\n' ;;
            flock) printf 'flock (util-linux)\n' ;;
        esac
    done
}

# package_of MANAGER WORD: the package that brings it.
package_of() {
    case $1:$2 in
        apt:python) echo python3 python3-venv ;;
        apt:venv) echo python3-venv ;;
        apt:rust) apt_rust_packages ;;
        apt:cc) echo gcc ;;
        apt:libc) echo libc6-dev ;;
        dnf:python | dnf:venv) echo python3 ;;
        dnf:rust) echo rust cargo ;;
        dnf:cc) echo gcc ;;
        dnf:libc) echo glibc-static ;;
        pacman:python | pacman:venv) echo python ;;
        pacman:rust) echo rust ;;
        pacman:cc) echo gcc ;;
        pacman:libc) echo glibc ;;
        zypper:python | zypper:venv) echo python311 ;;
        zypper:rust) echo rust cargo ;;
        zypper:cc) echo gcc ;;
        zypper:libc) echo glibc-devel-static ;;
        brew:python | brew:venv) echo python ;;
        brew:rust) echo rust ;;
        brew:cc) echo gcc ;;
        brew:libc) ;;
        *:flock) echo util-linux ;;
    esac
}

# The pair of packages that is new enough here. Debian 12 has it as rustc-web, Ubuntu 24.04 as rustc-1.NN.
apt_rust_packages() {
    if apt_offers rustc; then
        echo rustc cargo
    elif apt_offers rustc-web; then
        echo rustc-web cargo-web
    else
        for package in $(apt-cache search --names-only '^rustc-1\.[0-9]+$' 2>/dev/null | cut -d' ' -f1 | sort -rV); do
            if is_at_least "$oldest_rust" "${package#rustc-}"; then
                echo "$package" "cargo-${package#rustc-}"
                return 0
            fi
        done
        echo rustc-web cargo-web
    fi
}

apt_offers() {
    candidate=$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9]*:\)\{0,1\}//p')
    is_at_least "$oldest_rust" "${candidate:-0.0}"
}

packages_of() {
    manager=$1
    shift
    for word in "$@"; do package_of "$manager" "$word"; done | tr ' ' '\n' | awk 'NF && !seen[$0]++' | tr '\n' ' ' | sed 's/ $//'
}

# The package manager of this system; an image system's is brew, whatever else it carries.
package_manager() {
    if [ -e "$system_root/run/ostree-booted" ]; then
        echo brew
        return 0
    fi
    for manager in apt-get:apt dnf:dnf pacman:pacman zypper:zypper brew:brew; do
        if command -v "${manager%:*}" >/dev/null 2>&1; then
            echo "${manager#*:}"
            return 0
        fi
    done
    return 1
}

# install_command MANAGER WORD…: the exact command.
install_command() {
    command_packages=$(packages_of "$@")
    [ -n "$command_packages" ] || return 0
    case $1 in
        apt) echo "sudo apt-get install $command_packages" ;;
        dnf) echo "sudo dnf install $command_packages" ;;
        pacman) echo "sudo pacman -S --needed $command_packages" ;;
        zypper) echo "sudo zypper install $command_packages" ;;
        brew) echo "brew install $command_packages" ;;
    esac
}

# explain_missing WORD…: what is missing and how to get it, on stderr.
explain_missing() {
    say 'these are missing, and the set-up needs them:'
    in_words "$@" | sed 's/^/  - /' >&2
    if manager=$(package_manager); then
        say "install them with:"
        printf '  %s\n' "$(install_command "$manager" "$@")" >&2
    else
        manager=unknown
        say 'found no package manager that ktrial knows; on other systems, install them with:'
        for other in apt dnf pacman zypper brew; do printf '  %s\n' "$(install_command "$other" "$@")" >&2; done
    fi
    if [ "$manager" = brew ]; then explain_image_system "$@"; fi
}

# Homebrew has no static C library, and an image system's own packages are fixed.
explain_image_system() {
    case " $* " in
        *' libc '*)
            say 'brew has no static C library: set ktrial up inside a container of this machine, and start it there:'
            printf '  distrobox create --image registry.fedoraproject.org/fedora:latest ktrial && distrobox enter ktrial\n' >&2
            printf '  (or: toolbox create ktrial && toolbox enter ktrial)\n' >&2
            printf '  %s\n' "$(install_command dnf "$@")" >&2
            ;;
        *)
            say 'or inside a container (distrobox enter, toolbox enter) with:'
            printf '  %s\n' "$(install_command dnf "$@")" >&2
            ;;
    esac
}
