# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Words that every set-up script uses. Sourced with $root set to the checkout.

say() { printf 'ktrial: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# The owner of the checkout owns everything that the set-up makes, whoever starts it.
owner_of() { stat -c %u -- "$1"; }

# group_of ROOT: the owner's own group; that of the checkout for an owner whom the system has no entry for.
group_of() { id -g "$(stat -c %U -- "$1")" 2>/dev/null || stat -c %g -- "$1"; }

# is_foreign ROOT: started as root in a checkout that belongs to an ordinary user (sudo ./ktrial).
is_foreign() { is_root && [ "$(owner_of "$1")" -ne 0 ]; }

# as_owner ROOT COMMAND…: as the owner of the checkout, with the owner's own home and environment.
as_owner() {
    as_owner_root=$1
    shift
    if ! is_foreign "$as_owner_root"; then
        "$@"
    elif setpriv --reset-env true 2>/dev/null; then
        setpriv --reuid "$(owner_of "$as_owner_root")" --regid "$(group_of "$as_owner_root")" --init-groups \
            --inh-caps=-all --reset-env -- "$@"
    else
        sudo -H -u "#$(owner_of "$as_owner_root")" -- "$@"
    fi
}
