#!/usr/bin/env bash
# A training step of the reference run against the same model in PyTorch, in turn: median milliseconds of
# each round and the ratio.  On a quiet machine; needs a Python with torch (PYTHON names it).
#
#   tests/speed.sh TEXT [ROUNDS]       VARIANTS: softmax and elu1, if not given
set -euo pipefail
text=${1:?usage: tests/speed.sh TEXT [ROUNDS]}
rounds=${2:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$root/build/release/bin}
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}

for attn in ${VARIANTS:-softmax elu1}; do
  for _ in $(seq "$rounds"); do
    theirs=$("$python" "$root/tests/golden/train_reference.py" --attn "$attn" --data "$text" --steps 100 |
      tail -1 | sed 's/.*"ms_per_step": \([0-9.]*\).*/\1/')
    "$bin/train" --attn="$attn" --data "$text" --max-iters 100 --val-frac 0 --out-dir "$work/run" --overwrite --quiet >/dev/null
    ours=$(sed -n 's/.*"step": 100,.*"ms": \([0-9.]*\).*/\1/p' "$work/run/metrics.jsonl")
    echo "$theirs $ours"
  done | awk -v attn="$attn" '
    { ratio[NR] = $1 / $2; printf "%-10s PyTorch %6.2f ms   lina %6.2f ms   %.2f x\n", attn, $1, $2, ratio[NR] }
    END { n = asort_(ratio, NR); printf "%-10s median ratio %.2f x\n", attn, ratio[int((NR + 1) / 2)] }
    function asort_(x, n,   i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && x[j] < x[j - 1]; j--) { t = x[j]; x[j] = x[j - 1]; x[j - 1] = t } }'
done
