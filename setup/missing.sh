#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# missing.sh CHECKOUT: prints a word for each tool that the set-up lacks, as the user that starts it sees the machine.
set -eu
root=$1
# shellcheck source=setup/common.sh
. "$root/setup/common.sh"
# shellcheck source=setup/tools.sh
. "$root/setup/tools.sh"
missing_tools
