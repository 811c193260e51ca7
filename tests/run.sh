#!/usr/bin/env bash
# tests/run.sh [--preset P] [--sanitize] [--long]: set-up, build, all tests, and one last line with the totals.
#   --preset P   release (default), native, dev (ASan and UBSan) or tsan
#   --sanitize   the dev preset as well
#   --long       LINA_LONG=1 in the environment: scripts in tests/cli do all of their cases, in two hours each at
#                most; last, where there is clang with its OpenMP runtime, the tsan preset without the tests in double
# With CI=true: warnings are errors, and the suite runs three times: release, release with CK_FORK=no, dev.
#
# The numbers are Check's checks, plus one for each other test (the scripts in tests/cli, layering).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,/^# With/s/^# \{0,1\}//p' tests/run.sh; }

preset=release sanitize=no long=no time=()
while (($#)); do
    case $1 in
    --preset) preset=${2:?--preset needs a name} && shift ;;
    --preset=*) preset=${1#*=} ;;
    --sanitize) sanitize=yes ;;
    --long) long=yes time=(--timeout 7200) && export LINA_LONG=1 ;;
    -h | --help) usage && exit 0 ;;
    *) echo "run.sh: unknown option '$1'" >&2 && usage >&2 && exit 2 ;;
    esac
    shift
done

# shellcheck source=train/setup.sh
. train/setup.sh

passed=0 failed=0 skipped=0
work=$(mktemp -d)

finish() { # the closing line, however this script ends
    local status=$?
    rm -rf "$work"
    if ((status != 0 && failed == 0)); then failed=1; fi
    printf '%d passed, %d failed' "$passed" "$failed"
    if ((skipped)); then printf ', %d skipped' "$skipped"; fi
    echo
    ((passed > 0 && failed == 0)) && exit 0
    exit 1
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

build() { # PRESET
    local options=()
    if [[ ${CI:-} == true ]]; then options=(-DLINA_WERROR=ON); fi
    echo "== $1: configure and build"
    lina_configure "$1" ${options[@]+"${options[@]}"} >"$work/configure" || {
        cat "$work/configure" && fail "configure $1" && return 1
    }
    lina_build "$1" || { fail "build $1" && return 1; }
}

# Reads `ctest -V`: counts into the file `counts`, the whole output of tests that failed onto the screen.
# shellcheck disable=SC2016
reader='
/^[0-9]+: / {
    id = $1; sub(/:.*/, "", id)
    text = $0; sub(/^[0-9]+: /, "", text)
    output[id] = output[id] "    " text "\n"
    if (text ~ /^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/) {
        split(text, part, /[:,]/)
        checks[id] += part[3]; bad[id] += part[5] + part[7]
    }
    next
}
/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
    id = $0; sub(/^[^#]*#/, "", id); sub(/:.*/, "", id)
    name = $0; sub(/^[^#]*#[0-9]+: */, "", name); sub(/[ .].*/, "", name)
    ended++
    if (/\*\*\*Skipped/) { skipped++; print "skipped: " name; next }
    ok = / Passed /
    if (name !~ /^test_/) { if (ok) passed++; else failed++ }
    else {
        passed += checks[id] - bad[id]; failed += bad[id]
        if (checks[id] == 0 || (!ok && bad[id] == 0)) { ok = 0; failed++ } # died, or ran nothing
        else if (bad[id]) ok = 0
    }
    if (!ok) { print "---- failed: " name; printf "%s", output[id]; print "---- end of " name }
}
END { printf "%d %d %d %d\n", passed, failed, skipped, ended >counts }'

run() { # PRESET NAME [ctest options]
    local name=$2 preset=$1 status before=$failed p f s ended file
    shift 2
    echo "== $name: tests"
    # what is going to run, and whether every test_*.c is among it
    ctest --preset "$preset" -N "$@" >"$work/list"
    for file in tests/test_*.c; do
        file=${file##*/}
        grep -q "#[0-9]*: ${file%.c}\$" "$work/list" || fail "tests/$file is not registered in tests/CMakeLists.txt"
    done
    status=0
    ctest --preset "$preset" -V -j 1 ${time[@]+"${time[@]}"} "$@" 2>&1 | tee "$work/log" |
        grep --line-buffered -E '^ *[0-9]+/[0-9]+ Test +#[0-9]+: ' || status=${PIPESTATUS[0]}
    awk -v counts="$work/counts" "$reader" "$work/log"
    read -r p f s ended <"$work/counts"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if ! grep -qx "Total Tests: $ended" "$work/list"; then
        fail "$ended tests ran; $(tail -n 1 "$work/list")"
    fi
    if ((status != 0 && failed == before)); then
        tail -n 20 "$work/log"
        fail "ctest ended with $status"
    fi
}

export CK_VERBOSITY=normal # the line with the counts must be there
needs=(tests)
if [[ $preset == tsan ]]; then needs+=(tsan); fi
lina_setup "${needs[@]}"

if build "$preset"; then
    run "$preset" "$preset"
    if [[ ${CI:-} == true && ${CK_FORK:-} != no ]]; then
        CK_FORK=no run "$preset" "$preset with CK_FORK=no" -L check
    fi
fi
if [[ $preset != dev && ($sanitize == yes || ${CI:-} == true) ]] && build dev; then
    # in one process: a fork of an instrumented one takes as long as most checks
    CK_FORK=no run dev "dev (AddressSanitizer, UBSan)"
fi
if [[ $preset != tsan && $long == yes ]]; then
    if ! lina_has_tsan; then
        echo "skipped: tsan (ThreadSanitizer): no clang with its OpenMP runtime (Debian: clang, libomp-dev)"
        skipped=$((skipped + 1))
    elif build tsan; then
        # in double the same code has the same threads: left out here, and run by --preset tsan
        run tsan "tsan (ThreadSanitizer)" -E '64$'
    fi
fi
