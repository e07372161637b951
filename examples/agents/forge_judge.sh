#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# forge_judge.sh: `ktrial ab --campaign` as the judge behind scx_forge_agent, which changes a scheduler by a model.
#
# The agent keeps a candidate whose single number is smaller than the best one before. This script makes that number the
# decision of a campaign: one less than before if the candidate is proven better than the best so far, else the same.
# Put it into the agent's spec.toml, with a workload that prints one number (above zero, smaller is better):
#
#     [workload]
#     command = "examples/agents/forge_judge.sh target/release/scx_forge my-workload"
#     duration = 7200
#     runs = 1
#     [goal]
#     direction = "minimize"
#     accept_threshold_stddev = 0.0
#
# FORGE_DECISIONS is the number of rounds of the agent ([ai] rounds, 32). The agent has the candidate attached; each run
# attaches the scheduler that its arm needs, and in the end the candidate is attached again, as the agent expects.
set -eu
state=${SCX_STATE:-/sys/kernel/sched_ext/state}
kept=${FORGE_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/forge-judge}
sudo=${SUDO-sudo -n}

fail() {
    echo "forge_judge.sh: $*" >&2
    exit 1
}

await() {
    tries=0
    until [ "$(cat "$state")" = "$1" ]; do
        tries=$((tries + 1))
        [ $tries -le 100 ] || fail "the scheduler's state is not $1"
        sleep 0.1
    done
}

# The processes that run this file, whoever owns them.
running() {
    $sudo find -L /proc/[0-9]*/exe -maxdepth 0 -samefile "$1" 2>/dev/null | cut -d/ -f3
}

# Attach a scheduler in place of the one that is attached.
attach() {
    for one in "$candidate" "$best"; do
        for pid in $(running "$one"); do
            $sudo kill -INT "$pid" 2>/dev/null || :
        done
    done
    await disabled
    $sudo setsid "$1" >/dev/null 2>&1 </dev/null &
    await enabled
}

[ $# -ge 2 ] || fail "usage: forge_judge.sh CANDIDATE WORKLOAD…"
if [ "$1" = under ]; then # a run of an arm: under BEST CANDIDATE WHICH WORKLOAD…
    best=$2 candidate=$3 which=$4
    shift 4
    attach "$which"
    exec "$@"
fi
candidate=$(realpath "$1") best=$kept/$(basename "$1")
shift
mkdir -p "$kept"
if [ ! -e "$best" ]; then # round 0: what the agent begins with
    cp "$candidate" "$best"
    echo 1000 >"$kept/number"
    cat "$kept/number"
    exit
fi
own=$(realpath "$0")
arm="$own under $best $candidate"
status=0
# shellcheck disable=SC2086 # KTRIAL holds words
${KTRIAL:-ktrial} ab --campaign "${FORGE_CAMPAIGN:-forge}" --of "${FORGE_DECISIONS:-32}" \
    --metric 'value_us:lower=([0-9.]+)' --primary value "$arm $best $*" "$arm $candidate $*" >&2 || status=$?
attach "$candidate"
case $status in
0) cp "$candidate" "$best.new" && mv "$best.new" "$best" && echo $(($(cat "$kept/number") - 1)) >"$kept/number" ;;
3 | 4) ;; # revert; or all decisions are made
*) exit "$status" ;;
esac
cat "$kept/number"
