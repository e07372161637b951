#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# campaign_loop.sh: a model proposes one command after the other, and `ktrial ab --campaign` keeps or reverts.
#
#     campaign_loop.sh NAME N BEST MODEL [ARGUMENT…]
#
# NAME and N are the campaign and its number of decisions, which share one error of 5 %. BEST is the command to begin
# with. MODEL gets the best command so far on stdin, and prints the next candidate, or nothing when it is done. The last
# line of the output is the best command. KTRIAL is the command of ktrial, AB holds more options of ab.
set -eu
name=$1 of=$2 best=$3
shift 3
while candidate=$(printf '%s\n' "$best" | "$@") && [ -n "$candidate" ]; do
    status=0
    # shellcheck disable=SC2086 # KTRIAL and AB hold words
    ${KTRIAL:-ktrial} ab --campaign "$name" --of "$of" ${AB:-} "$best" "$candidate" >&2 || status=$?
    case $status in
    0) best=$candidate ;;
    3) ;;            # revert
    4) break ;;      # all decisions are made
    *) exit "$status" ;;
    esac
done
printf '%s\n' "$best"
