#!/bin/bash
# tests/fuzz/run.sh [SECONDS] [TARGET...]      each fuzz target (or these) for so many seconds: 60
#
# Builds the targets with libFuzzer, AddressSanitizer and UBSan into build/fuzz (clang and its
# compiler-rt).  A corpus begins as the seeds and is thrown away; an input that is a finding stays in
# build/fuzz/findings/TARGET.  Once the parser is right, it becomes a seed: seeds/TARGET/.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/fuzz
seconds=${1:-60}
shift || true
[ $# -gt 0 ] || set -- options config spec tokenizer checkpoint prompt results

cmake -S "$root" -B "$build" -DCMAKE_C_COMPILER=clang -DLINA_FUZZ=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
      -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g" >"$build.log" || { cat "$build.log"; exit 1; }
cmake --build "$build" -j "$(nproc)" --target "${@/#/fuzz_}" >"$build.log" || { cat "$build.log"; exit 1; }

corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
failed=0
for target; do
    findings=$build/findings/$target
    mkdir -p "$findings" "$corpus/$target"
    status=0
    nice "$build/bin/fuzz_$target" -max_total_time="$seconds" -timeout=20 -max_len=16384 \
         -print_final_stats=1 -artifact_prefix="$findings/" "$corpus/$target" "$here/seeds/$target" \
         >"$findings/log" 2>&1 || status=$?
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$findings/log")
    coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$findings/log" | tail -n 1)
    printf '%-12s %10s executions, %6s edges, ' "$target" "${executions:-0}" "${coverage:-0}"
    if [ $status = 0 ]; then
        echo "no finding"
    else
        failed=1
        echo "a FINDING: $findings/log"
        grep -m 1 -E 'ERROR|SUMMARY|runtime error|does not hold' "$findings/log" || true
    fi
done
exit $failed
