#!/usr/bin/env bash
# tsan_programs.sh -- short runs of the programs in a build with ThreadSanitizer, which ends a program with 66 at the
# first data race. More threads than processors, so that they interrupt each other anywhere.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"
grep -q __tsan_init "$bin/train" || { echo "skipped: not built with ThreadSanitizer"; exit 77; }
export OMP_NUM_THREADS=4

text 20000 >t.txt
# Without it barriers are not seen, and nothing below says anything.
check "libomp has loaded Archer" grep -q '^Archer detected OpenMP application with TSan' \
  <(ARCHER_OPTIONS=verbose=1 "$bin/train" "${tiny[@]}" --data=t.txt --dry-run 2>&1)
args=("${tiny[@]}" --data=t.txt --max-iters=6 --eval-interval=3 --eval-iters=2 --quiet)
runs=0
for attn in softmax elu1 double-softmax cosine exp window:w=8 lsh:buckets=4,c=4 elu1@1+window:w=8@1; do
  runs=$((runs + 1))
  run 0 train "${args[@]}" --attn="$attn" --grad-accum=2 --dropout=.1 --sample-every=6 --save-interval=2 --out-dir="run$runs"
  check "$attn: each step once" each_step_once "run$runs/metrics.jsonl" 6
  run 0 generate --checkpoint="run$runs/best.h5" --tokens=20 --prompt=The
done
run 0 train "${args[@]}" --attn=linformer --objective=mlm --recompute --optim=sgd --out-dir=mlm
run 0 train "${tiny[@]}" --task=mqar:pairs=4,length=32 --max-iters=6 --eval-interval=3 --quiet --out-dir=task
run 0 train "${args[@]}" --csv --tensorboard --out-dir=tracked
run 0 train --resume --out-dir=tracked --max-iters=12 --threads=3
stop_at TERM stopped 20 "${args[@]}" --max-iters=1000000 --eval-interval=1000000
check "exit code of SIGTERM" test "$code" = 143
run 0 train --resume --out-dir=stopped --max-iters="$(wc -l <stopped/metrics.jsonl)"
run 0 compare --attn=elu1 --data=t.txt "${tiny[@]}" --max-iters=3 --eval-iters=2 --seeds=1 --longest=256 --out-dir=compared
finish
