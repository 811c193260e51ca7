#!/usr/bin/env bash
# The reference run, 2,000 steps in one go, against the same run stopped near step 700, once by SIGTERM and
# once by SIGKILL, and resumed with another number of threads: equal weights, byte by byte, and every step's
# numbers once in metrics.jsonl.  TEXT names the text (default: one made here); ATTN the variant.
set -euo pipefail
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
text=${TEXT:-$work/text}
attn=${ATTN:-elu1}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
[ -n "${TEXT:-}" ] || awk 'BEGIN {
  n = split("the king and queen of all lands went down to sea with a ship; then, weary, they slept.", w, " ")
  s = 7; for (i = 0; i < 60000; i++) { s = (s * 1103515245 + 12345) % 2147483648
    printf "%s%s", w[1 + int(s / 65536) % n], i % 11 ? " " : "\n" } }' >"$text"

numbers() { sed -E 's/, "(ms|tokens_per_s|elapsed_s|rss_bytes)": [0-9.e+-]+//g' "$1/metrics.jsonl"; }

"$bin/train" --attn="$attn" --data "$text" --threads 2 --out-dir "$work/whole" --quiet
for how in TERM KILL; do
  run=$work/$how
  "$bin/train" --attn="$attn" --data "$text" --threads 2 --out-dir "$run" --quiet >"$work/log" &
  pid=$!
  until [ "$(grep -sc '' "$run/metrics.jsonl")" -ge 700 ] 2>/dev/null; do sleep 0.1; done
  kill -s $how $pid
  wait $pid && { echo "$how: the run was not stopped"; exit 1; }
  stopped=$(tail -1 "$run/metrics.jsonl" | sed 's/^{"step": \([0-9]*\).*/\1/')
  "$bin/train" --resume=auto --out-dir "$run" --threads "$([ $how = TERM ] && echo 1 || echo 3)" --quiet
  cmp "$work/whole/last.h5" "$run/last.h5"
  diff <(numbers "$work/whole") <(numbers "$run")
  echo "SIG$how at step $stopped: last.h5 is equal byte by byte, and so are the numbers of $(wc -l <"$run/metrics.jsonl") lines"
done
