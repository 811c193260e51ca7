#!/usr/bin/env bash
# Checkpoints travel: best.h5 of each variant in a GPT written in PyTorch gives the loss that train
# printed, to 1e-4, and a state dict that PyTorch wrote through h5py comes in with the same loss.
# Skipped where there is no Python with torch and h5py.
set -euo pipefail
bin=$1
golden=$(cd "$(dirname "$0")/../golden" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} ASAN_OPTIONS=${ASAN_OPTIONS:-}

python=
for p in python3 /usr/bin/python3; do
  if "$p" -c 'import torch, h5py' 2>/dev/null; then python=$p; break; fi
done
[ -n "$python" ] || { echo "skipped: no Python with torch and h5py here"; exit 77; }

# English-like words from a linear congruential generator, the same on every machine
awk 'BEGIN { split("the king and queen of all lands went down to sea with a ship; then, weary, they slept.", w, " ")
  s = 7; for (i = 0; i < 9000; i++) { s = (s * 1103515245 + 12345) % 2147483648; printf "%s%s", w[1 + int(s / 65536) % 17], i % 11 ? " " : "\n" } }' >"$work/text"
loss_of() { sed -n 's/.*val loss \([0-9.]*\).*/\1/p' | tail -1; }
close() { # what a b
  awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; exit !(a != "" && b != "" && d < 1.5e-4 && d > -1.5e-4) }' ||
    { echo "$1: train says $2, PyTorch says $3"; exit 1; }
  echo "$1: $2 and $3"
}

for attn in softmax elu1 double-softmax cosine none; do
  extra=()
  [ "$attn" = cosine ] && extra=(--bias --pos none)
  "$bin/train" --attn=$attn --data "$work/text" --out-dir "$work/$attn" --n-layer 2 --n-embd 32 --n-head 2 \
    --block-size 32 --max-iters 60 --eval-interval 60 --quiet "${extra[@]}" >"$work/log"
  theirs=$("$python" "$golden/compare_checkpoint.py" "$work/$attn/best.h5" "$work/text" | sed -n 's/.*"val_loss": *\([0-9.]*\).*/\1/p')
  close "$attn out" "$(loss_of <"$work/log")" "$theirs"
done

for attn in softmax elu1 double-softmax cosine; do
  theirs=$("$python" "$golden/export_state_dict.py" "$work/$attn.h5" --data "$work/text" --attn $attn --n-layer 2 --n-embd 32 --n-head 2 --block-size 32 | sed -n 's/.*"val_loss": *\([0-9.]*\).*/\1/p')
  ours=$("$bin/train" --attn=$attn --init-from "$work/$attn.h5" --trust-file --eval-only --data "$work/text" \
    --n-layer 2 --n-embd 32 --n-head 2 --block-size 32 | loss_of)
  close "$attn in" "$ours" "$theirs"
done
