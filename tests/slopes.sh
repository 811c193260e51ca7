#!/usr/bin/env bash
# How the time of a variant grows with the text: milliseconds, forward and backward, from 4,096 to 65,536 tokens,
# 4 heads of 64, and the slope of log time on log tokens over the whole range.
#
#   tests/slopes.sh [NAME[:options] ...]     those whose cost is below quadratic, if no name is given
#
# Options that depend on the length are completed for each: sparse-* with stride sqrt n, lsh with n/16 buckets.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${BIN:-build/release/bin}
lengths=(4096 8192 16384 32768 65536)
names=("$@")
((${#names[@]})) || names=(elu1 window:w=64 sparse-strided sparse-fixed lsh)
printf '| --attn |'
printf ' %s |' "${lengths[@]}" slope
printf '\n|---|---|---|---|---|---|---|\n'
for name in "${names[@]}"; do
  for n in "${lengths[@]}"; do
    "$bin/bench" attention --attn="$name" --n="$n" --heads=4 --d=64 --repeats=5 --threads="${THREADS:-2}" --json |
      sed -E 's/.*"n": ([0-9]+).*"forward_ms": ([0-9.]+).*"backward_ms": ([0-9.]+).*/\1 \2 \3/'
  done | awk -v name="$name" '
    { x = log($1); y = log($2 + $3); n++; sx += x; sy += y; sxx += x * x; sxy += x * y; ms = ms sprintf(" %.1f |", $2 + $3) }
    END { printf "| %s |%s %.2f |\n", name, ms, (n * sxy - sx * sy) / (n * sxx - sx * sx) }'
done
