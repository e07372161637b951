# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Installs packages on Debian and Ubuntu. Sourced after tools.sh, by root only.

apt_lists_are_fresh=no

install_packages() {
    if [ "$apt_lists_are_fresh" = no ]; then
        apt-get update --quiet=2 >&2 || say 'apt-get update failed; continuing with the present package lists'
        apt_lists_are_fresh=yes
    fi
    say "installing Debian packages: $*"
    # Servers are for tests that start their own: systemctl starts none before the next boot.
    DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 apt-get install --yes --quiet=2 --no-install-recommends "$@" >&2
}

# install_for_words WORD…: what brings the missing tools, and the certificates that pip and cargo need.
install_for_words() {
    apt-get update --quiet=2 >&2 || say 'apt-get update failed; continuing with the present package lists'
    apt_lists_are_fresh=yes
    # shellcheck disable=SC2046 # one word per package
    install_packages ca-certificates $(packages_of apt "$@")
}

# install_listed FILE: those packages of the list (one a line, # begins a comment) that are not installed yet.
install_listed() {
    wanted=$(sed 's/#.*//' "$1" | while read -r package; do
        [ -z "$package" ] || is_installed "$package" || printf '%s ' "$package"
    done)
    # shellcheck disable=SC2086 # one word per package
    set -- $wanted
    [ $# -eq 0 ] || install_packages "$@"
}

is_installed() { dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

# install_rust_tools RUSTC: the formatter and the linter that go with a packaged compiler. Debian 12 has no linter for its
# rustc-web; a compiler of rustup brings both itself.
install_rust_tools() {
    case $(dpkg-query --search "$1" 2>/dev/null) in
        rustc-web:*) install_packages rustfmt-web ;;
        rustc-1.*) rust_version=$("$1" --version | cut -d' ' -f2 | cut -d. -f1,2) &&
            install_packages "rustfmt-$rust_version" "rust-$rust_version-clippy" ;;
        rustc:*) install_packages rustfmt rust-clippy ;;
    esac
}
