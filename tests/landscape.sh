#!/usr/bin/env bash
# What every attention variant reaches in 500 steps of the reference model, as a table for
# autograd/attention/README.md:
#
#   tests/landscape.sh tinyshakespeare.txt [--mlm] [--steps N] [NAME[:options] ...]
#
# Without names all variants that the objective allows.  Validation loss over the whole validation text, in
# nats per character (--mlm: per hidden character), the same seed for all.  About 20 seconds a line on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${BIN:-build/release/bin}
text=${1:?which text?}
shift
objective=causal steps=500 names=()
while (($#)); do
  case $1 in
  --mlm) objective=mlm ;;
  --steps) steps=$2 && shift ;;
  *) names+=("$1") ;;
  esac
  shift
done
if ((${#names[@]} == 0)); then
  # a variant's line in --list-attn begins in the first column: NAME, DIRECTIONS
  mapfile -t names < <("$bin/train" --list-attn | sed -n 's/^\([a-z0-9-]*\), \(.*\)/\1 \2/p' |
    awk -v objective=$objective '!(objective == "causal" && /bidirectional only/) { print $1 }')
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
echo "| --attn | parameters | ms a step | validation loss after $steps steps, $objective |"
echo "|---|---|---|---|"
for name in "${names[@]}"; do
  "$bin/train" --attn="$name" --objective=$objective --data "$text" --max-iters "$steps" --eval-interval "$steps" \
    --out-dir "$out/run" --overwrite --save-interval 1000000 >"$out/log"
  loss=$(sed -n 's/^done: .*val loss \([0-9.]*\).*/\1/p' "$out/log")
  numbers=$(grep -o '[0-9,]* parameters\|[0-9]* numbers' "$out/log" | head -1 | grep -o '^[0-9,]*' || true)
  ms=$(sed -n 's/^step '"$steps"'.* | \([0-9.]*\) ms.*/\1/p' "$out/log")
  echo "| $name | $numbers | $ms | $loss |"
done
