#!/usr/bin/env bash
# The reference run (the defaults of train) for each variant and three seeds: the table in the README.
#
#   tests/reference.sh TEXT [FOLDER]        about half an hour on two cores; finished runs are not repeated
#
# BIN: where the programs are (build/release/bin).  VARIANTS, SEEDS: what to run.
set -euo pipefail
text=${1:?usage: tests/reference.sh TEXT [FOLDER]}
out=${2:-runs/reference}
mkdir -p "$out"
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$here/build/release/bin}
read -ra variants <<<"${VARIANTS:-softmax elu1 double-softmax cosine none}"
read -ra seeds <<<"${SEEDS:-1 2 3}"

for attn in "${variants[@]}"; do
  losses=()
  for seed in "${seeds[@]}"; do
    run=$out/$attn-s$seed
    if ! grep -q '"step": 2000,.*"val_loss"' "$run/metrics.jsonl" 2>/dev/null; then
      "$bin/train" --attn="$attn" --data "$text" --seed "$seed" --out-dir "$run" --overwrite --quiet >"$out.log" 2>&1 ||
        { cat "$out.log" >&2; exit 1; }
    fi
    losses+=("$(sed -n 's/^{"step": 2000,.*"val_loss": \([0-9.]*\).*/\1/p' "$run/metrics.jsonl")")
  done
  printf '%s\n' "${losses[@]}" | awk -v attn="$attn" '
    { x[NR] = $1; sum += $1; if (NR == 1 || $1 < low) low = $1; if (NR == 1 || $1 > high) high = $1 }
    END { printf "%-15s", attn; for (i = 1; i <= NR; i++) printf " %.4f", x[i]
          printf "   mean %.4f   spread %.4f\n", sum / NR, high - low }'
done
