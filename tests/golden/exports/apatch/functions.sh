# SPDX-License-Identifier: Apache-2.0
# Functions of this module's scripts, for any POSIX shell (busybox ash, mksh). MODDIR is the module's folder.
# What must outlive an update is in STATE: the values from before the first write, the guard's count, the log.
# Words are split on purpose; patterns stand for files only between `set +f` and `set -f`.
# shellcheck shell=sh disable=SC2086,SC2048,SC2015,SC2013

LC_ALL=C
export LC_ALL
umask 022
set -f
. "$MODDIR/settings.sh" || exit 1
STATE=/data/adb/ktrial/$ID
LOG=$STATE/log
TAB=$(printf '\t')
LINE_FEED='
'

# Write a line of the log: fields with a tab between them.
log() {
    line=$1
    shift
    for field in "$@"; do line=$line$TAB$field; done
    printf '%s\n' "$line" >> "$LOG"
}

# Begin the log of this boot; the one before stays as log.old.
begin_log() {
    [ ! -e "$LOG" ] || mv -f "$LOG" "$LOG.old"
    log ktrial-module-log/1 "$ID" "$VERSION"
    log boot "$(date '+%Y-%m-%d %H:%M:%S')" "kernel $(uname -r)" \
        "$(getprop ro.product.manufacturer) $(getprop ro.product.model), Android $(getprop ro.build.version.release)"
}

# Show the log on the module's page.
publish_log() {
    [ ! -d "$MODDIR/webroot" ] ||
        { cp "$LOG" "$MODDIR/webroot/log.new" && mv -f "$MODDIR/webroot/log.new" "$MODDIR/webroot/log.txt"; }
}

# Write a line into a file of STATE, under another name first. In a shell of its own: what a built-in printf could not
# write is lost with it.
put() { # FILE TEXT
    (printf '%s\n' "$2" > "$1.new") 2> /dev/null && mv -f "$1.new" "$1" && return
    rm -f "$1.new"
    return 1
}

# Set TEXT to the words of a file with a space between them. Fails if the file cannot be read.
read_text() {
    TEXT=$(cat "$1" 2> /dev/null) || return 1
    set -- $TEXT
    TEXT=$*
}

# Set MASK to a CPU mask without commas and leading zeros.
plain_mask() {
    MASK=${1#0x}
    while :; do
        case $MASK in
        *,*) MASK=${MASK%%,*}${MASK#*,} ;;
        0?*) MASK=${MASK#0} ;;
        *) return ;;
        esac
    done
}

# Set SHOWN to the part of TEXT that counts: the word in brackets, the switch of a scheduler feature (empty if the
# kernel has no such feature), a plain number.
active() { # RULE WANTED
    SHOWN=$TEXT
    case $1 in
    choice)
        case $TEXT in
        *\[*\]*) SHOWN=${TEXT#*\[} SHOWN=${SHOWN%%\]*} ;;
        *\(*\)*) SHOWN=${TEXT#*\(} SHOWN=${SHOWN%%\)*} ;;
        esac
        ;;
    feature)
        SHOWN=
        for word in $TEXT; do
            case $word in "${2#NO_}" | "NO_${2#NO_}") SHOWN=$word ;; esac
        done
        ;;
    bool)
        case $TEXT in
        Y | y | on | enabled) SHOWN=1 ;;
        N | n | off | disabled) SHOWN=0 ;;
        esac
        ;;
    mask) plain_mask "$TEXT" && SHOWN=$MASK ;;
    esac
}

# Whether SHOWN is the wanted value.
fits() { # RULE WANTED
    case $1 in
    pairs)
        for pair in $2; do
            case " $SHOWN " in *" $pair "*) ;; *) return 1 ;; esac
        done
        ;;
    mask) plain_mask "$2" && [ "$SHOWN" = "$MASK" ] ;;
    *) [ "$SHOWN" = "$2" ] ;;
    esac
}

# --- Values that depend on the phone. Each sets WANTED, or fails. ---

# The frequency policy that a file belongs to; empty for a file that all policies share.
policy_of() {
    POLICY=
    case $1 in
    */cpufreq/policy*)
        POLICY=${1#*/cpufreq/policy}
        POLICY=/sys/devices/system/cpu/cpufreq/policy${POLICY%%/*}
        ;;
    esac
}

# The highest (max) or lowest (min) clock of the file's policy, or of all CPUs.
edge_clock() { # FILE max|min
    policy_of "$1"
    edge=$2
    set +f
    if [ -n "$POLICY" ]; then
        set -- "$POLICY/cpuinfo_${edge}_freq"
    else
        set -- /sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_"$edge"_freq
    fi
    set -f
    WANTED=
    for clock in "$@"; do
        read_text "$clock" || continue
        case $edge in
        max) [ -n "$WANTED" ] && [ "$TEXT" -le "$WANTED" ] || WANTED=$TEXT ;;
        min) [ -n "$WANTED" ] && [ "$TEXT" -ge "$WANTED" ] || WANTED=$TEXT ;;
        esac
    done
    [ -n "$WANTED" ]
}

# The clock of a policy that is closest to a number of kHz; of two that are equally close, the lower one.
closest_clock() { # POLICY kHz
    clocks=
    if read_text "$1/scaling_available_frequencies"; then
        clocks=$TEXT
    elif [ -r "$1/stats/time_in_state" ]; then
        while read -r clock _; do clocks="$clocks $clock"; done < "$1/stats/time_in_state"
    fi
    WANTED=
    for clock in $clocks; do
        distance=$((clock > $2 ? clock - $2 : $2 - clock))
        if [ -z "$WANTED" ] || [ "$distance" -lt "$best" ] || { [ "$distance" -eq "$best" ] && [ "$clock" -lt "$WANTED" ]; }; then
            WANTED=$clock best=$distance
        fi
    done
    [ -n "$WANTED" ]
}

# CPU:kHz for the little cluster: the policy with the smallest capacity or, if unknown, the lowest maximum.
boost_pair() { # kHz
    little='' least=''
    set +f
    set -- "$1" /sys/devices/system/cpu/cpufreq/policy*
    set -f
    wanted_khz=$1
    shift
    for policy in "$@"; do
        read_text "$policy/related_cpus" || continue
        first=${TEXT%% *}
        read_text "/sys/devices/system/cpu/cpu$first/cpu_capacity" || read_text "$policy/cpuinfo_max_freq" || continue
        if [ -z "$least" ] || [ "$TEXT" -lt "$least" ]; then little=$policy least=$TEXT little_cpu=$first; fi
    done
    [ -n "$little" ] && closest_clock "$little" "$wanted_khz" && WANTED=$little_cpu:$WANTED
}

# The first of some words that the kernel offers, in the file itself or in one beside it.
first_offered() { # FILE "WORDS" [FILE-BESIDE]
    read_text "${3:+${1%/*}/}${3:-$1}" || return 1
    for candidate in $2; do
        WANTED=$candidate
        case " $TEXT " in *" $candidate "* | *" [$candidate] "*) return 0 ;; esac
    done
    return 1
}

# One number as often as the file shows numbers: once for each pair of neighbouring clusters.
repeated() { # FILE NUMBER
    read_text "$1" || return 1
    WANTED=
    for _ in $TEXT; do WANTED="$WANTED $2"; done
    WANTED=${WANTED# }
    [ -n "$WANTED" ]
}

# Set WISH to the words for a value that is not known yet.
wish_for() { # RECIPE ARGUMENT
    case $1 in
    first) WISH="the first of $2" ;;
    closest) WISH="the clock closest to $2 kHz" ;;
    boost) WISH="the clock of the little cluster closest to $2 kHz" ;;
    *) WISH=$2 ;;
    esac
}

# Whether a file beside shows a choice in brackets: a disk without a queue has no scheduler, and refuses what needs one.
has_choice() { # FILE [FILE-BESIDE]
    [ -z "${2-}" ] || ! read_text "${1%/*}/$2" && return
    case $TEXT in *\[*\]*) return 0 ;; esac
    return 1
}

value_for() { # FILE RECIPE ARGUMENT [FILE-BESIDE]
    case $2 in
    value) has_choice "$1" ${4:+"$4"} && WANTED=$3 ;;
    repeated) repeated "$1" "$3" ;;
    first) first_offered "$1" "$3" ${4:+"$4"} ;;
    max | min) edge_clock "$1" "$2" ;;
    closest) policy_of "$1" && closest_clock "$POLICY" "$3" ;;
    boost) boost_pair "$3" ;;
    esac
}

# --- The values from before the first write ---

# Copy what a file holds, of the scheduler's features only one.
copy_value() { # FILE RULE @FEATURE COPY
    case $2 in
    feature)
        read_text "$1" && active feature "${3#@}" && [ -n "$SHOWN" ] && put "$4" "$SHOWN"
        ;;
    *)
        { cat "$1" > "$4.new"; } 2> /dev/null && mv -f "$4.new" "$4" && return
        rm -f "$4.new"
        return 1
        ;;
    esac
}

# Add a line to a list of STATE, unless it is there.
add_line() { # LIST LINE
    if [ -e "$1" ]; then
        grep -q -x -F -e "$2" "$1" && return
        cat "$1" > "$1.new" || return
    else
        : > "$1.new" || return
    fi
    (printf '%s\n' "$2" >> "$1.new") 2> /dev/null && mv -f "$1.new" "$1"
}

# Keep the value of a file, unless an earlier boot has kept it.
keep() { # FILE RULE KNOB @FEATURE
    kept=$STATE/originals$1$4
    [ ! -e "$kept" ] || return 0
    mkdir -p "${kept%/*}" && copy_value "$1" "$2" "$4" "$kept.kept" || return 1
    add_line "$STATE/order" "$1$TAB$2$TAB$3$TAB$4" && mv -f "$kept.kept" "$kept"
}

feature_of() { # RULE WANTED
    FEATURE=
    case $1 in feature) FEATURE=@${2#NO_} ;; esac
}

# Keep the values of all files of a setting; a setting without any is kept as absent.
keep_setting() { # KNOB RULE RECIPE ARGUMENT BESIDE PATTERN…
    feature_of "$2" "$4"
    knob=$1 rule=$2
    shift 5
    patterns=$*
    set +f
    set -- $*
    set -f
    found=
    for file in "$@"; do
        [ -e "$file" ] || continue
        if [ "$rule" = feature ] && read_text "$file"; then
            active feature "${FEATURE#@}"
            [ -n "$SHOWN" ] || continue
        fi
        found=1
        keep "$file" "$rule" "$knob" "$FEATURE" || unkept="$unkept $file"
    done
    [ -n "$found" ] || add_line "$STATE/absent" "$patterns"
}

# --- Writing ---

# Write a value in one piece, as the kernel needs it: toybox's printf writes the line end by itself.
write_value() { # FILE VALUE
    put "$STATE/value" "$2" && { cat "$STATE/value" > "$1"; } 2> /dev/null
}

# Write a value, read it back, and log what came of it.
set_file() { # FILE KNOB RULE RECIPE ARGUMENT BESIDE
    feature_of "$3" "$5"
    wish_for "$4" "$5"
    if ! read_text "$1"; then
        log refused "$2" "$1" "wanted $WISH" "it cannot be read, so its value cannot be kept"
        return
    fi
    active "$3" "$5"
    was=$SHOWN
    if [ "$3$SHOWN" = feature ]; then
        log absent "$2" "$1" "wanted $WISH" "the kernel has no such feature"
        return
    fi
    if ! value_for "$1" "$4" "$5" "$6"; then
        log absent "$2" "$1" "wanted $WISH" "was $was" "the phone does not offer it"
        return
    fi
    read_text "$1" && active "$3" "$5"
    if fits "$3" "$WANTED"; then
        log accepted "$2" "$1" "wanted $WANTED" "was $was" "is $SHOWN"
        return
    fi
    # A governor's files appear only when it is chosen.
    if [ ! -e "$STATE/originals$1$FEATURE" ] && ! { keep "$1" "$3" "$2" "$FEATURE" && sync; }; then
        log refused "$2" "$1" "wanted $WANTED" "was $was" "its value cannot be kept"
        return
    fi
    write_value "$1" "$WANTED"
    status=$?
    if ! read_text "$1"; then
        log refused "$2" "$1" "wanted $WANTED" "was $was" "it can no longer be read"
        return
    fi
    active "$3" "$5"
    if fits "$3" "$WANTED"; then
        outcome=accepted
    elif [ "$SHOWN" != "$was" ]; then
        outcome=clamped
    elif [ "$status" -ne 0 ]; then
        outcome=refused
    else
        outcome=ignored
    fi
    log "$outcome" "$2" "$1" "wanted $WANTED" "was $was" "is $SHOWN"
}

apply_setting() { # KNOB RULE RECIPE ARGUMENT BESIDE PATTERN…
    knob=$1 rule=$2 recipe=$3 argument=$4 beside=$5
    shift 5
    patterns=$*
    set +f
    set -- $*
    set -f
    found=
    for file in "$@"; do
        [ -e "$file" ] || continue
        found=1
        set_file "$file" "$knob" "$rule" "$recipe" "$argument" "$beside"
    done
    [ -n "$found" ] || { wish_for "$recipe" "$argument" && log absent "$knob" "$patterns" "wanted $WISH"; }
}

# Remember what this module leaves in each file, to know later whether somebody else wrote to it.
remember_left() {
    rm -rf "$STATE/left"
    while IFS=$TAB read -r file rule knob feature; do
        [ -e "$file" ] || continue
        mkdir -p "$STATE/left${file%/*}" && copy_value "$file" "$rule" "$feature" "$STATE/left$file$feature"
    done < "$STATE/order"
}

# Log each file that somebody else has written to since.
log_overwritten() {
    while IFS=$TAB read -r file rule knob feature; do
        left=$STATE/left$file$feature
        [ -e "$left" ] && [ -e "$file" ] || continue
        holds "$file" "$rule" "$feature" "$left" && continue
        read_text "$left" && active "$rule" "${feature#@}" && was=$SHOWN
        read_text "$file" && active "$rule" "${feature#@}"
        log overwritten "$knob" "$file" "left $was" "is $SHOWN"
    done < "$STATE/order"
}

# Log the other modules whose scripts mention a file that this one writes.
log_conflicts() {
    set +f
    for other in /data/adb/modules/*; do
        [ "${other##*/}" != "$ID" ] && [ -e "$other/module.prop" ] || continue
        [ ! -e "$other/disable" ] && [ ! -e "$other/remove" ] || continue
        mentioned=
        for word in $(grep -s -h -o -F -e "$NAMES" "$other"/*.sh "$other"/*/*.sh "$other"/system/bin/* "$other"/system/etc/init.d/*); do
            case " $mentioned " in *" $word "*) ;; *) mentioned="$mentioned $word" ;; esac
        done
        [ -z "$mentioned" ] ||
            log conflict "${other##*/}" "$(sed -n 's/^name=//p' "$other/module.prop")" "mentions$mentioned"
    done
    set -f
}

# --- Restoring: it needs no space on the disk ---

# Whether a file holds the same as a copy of it.
holds() { # FILE RULE @FEATURE COPY
    case $2 in
    feature) read_text "$1" && active feature "${3#@}" && [ "$SHOWN" = "$(cat "$4")" ] ;;
    *) TEXT=$(cat "$1" 2> /dev/null) && [ "$TEXT" = "$(cat "$4")" ] ;;
    esac
}

restore_file() { # FILE RULE @FEATURE
    case $2 in
    choice | pairs) # the kernel shows more than it takes; words without special characters, which echo writes at once
        read_text "$STATE/originals$1$3" && active "$2" && (echo "$SHOWN" > "$1") 2> /dev/null
        ;;
    *) { cat "$STATE/originals$1$3" > "$1"; } 2> /dev/null ;;
    esac
}

# Split a line of the list into file, rule and feature. Fails if there is nothing to restore.
take_entry() {
    IFS=$TAB
    set -- $1
    unset IFS
    file=$1 rule=$2 feature=$4
    [ -n "$file" ] && [ -e "$STATE/originals$file$feature" ] && [ -e "$file" ]
}

# Restore each value that is still the one that this module left. Fails if a file refuses its old value.
restore_all() {
    [ -e "$STATE/order" ] || return 0
    reversed='' again='' failed=0
    while read -r entry; do reversed=$entry$LINE_FEED$reversed; done < "$STATE/order"
    IFS=$LINE_FEED
    set -- $reversed
    unset IFS
    for entry in "$@"; do
        take_entry "$entry" || continue
        holds "$file" "$rule" "$feature" "$STATE/originals$file$feature" && continue
        left=$STATE/left$file$feature
        if [ -e "$left" ] && ! holds "$file" "$rule" "$feature" "$left"; then
            echo "left alone, because somebody else has changed it: $file ${feature#@}"
            continue
        fi
        restore_file "$file" "$rule" "$feature"
        again=$entry$LINE_FEED$again
    done
    # Writing one file may change another: what was restored first may need it again.
    IFS=$LINE_FEED
    set -- $again
    unset IFS
    for entry in "$@"; do
        take_entry "$entry" || continue
        original=$STATE/originals$file$feature
        holds "$file" "$rule" "$feature" "$original" || restore_file "$file" "$rule" "$feature"
        holds "$file" "$rule" "$feature" "$original" || { echo "cannot restore $file ${feature#@}" && failed=1; }
    done
    return "$failed"
}
