#!/usr/bin/env bash
# points.sh -- stopped or killed at a random step, and resumed with another number of threads, a run ends with
# the same bits as one that was not: every family of attention, both optimisers.  With LINA_LONG=1 at 20 steps
# of each, and the reference run as well; else at one.
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

# A spec of each family, patterns of layers and heads, and what else a step depends on.
specs=(
  "softmax"
  "elu1 --pos=none --dropout=.1"
  "relu --grad-accum=2"
  "relu2 --short-conv=4"
  "exp"
  "softplus --schedule=linear"
  "sigmoid"
  "taylor2:d=4"
  "taylor2:d=4,decay=.9"
  "favor:m=16,redraw=7 --dropout=.1"
  "rff:m=16,redraw=5"
  "dpfp:nu=2"
  "cosformer"
  "hedgehog:m=8"
  "t2r"
  "cosine --bias --pos=rope"
  "kernel:q=elu1,k=relu"
  "double-softmax --recompute"
  "window:w=8 --pos=rope"
  "sparse-strided:s=4"
  "sparse-fixed:s=8,c=2"
  "lsh:buckets=4,c=4,rounds=2"
  "linformer:r=8 --objective=mlm --dropout=.1"
  "none"
  "elu1/window:w=8 --short-conv=4 --on-nonfinite=skip:2"
  "elu1@1+window:w=8@1 --dropout=.1"
  "elu1:norm=rms,decay=learned/softmax --pos=rope"
  "double-softmax --objective=mlm --grad-accum=2"
)
sed -nE 's/^X\(([a-z0-9_]+)\).*/\1/p' "$root/autograd/attention/attn.def" >families
while read -r family; do
  check "$family is among the specs" grep -qE "(^| )${family//_/-}([: ]|$)" <<<"${specs[*]}"
done <families

text 20000 >t.txt
last_step=110
base=("${tiny[@]}" --data=t.txt --max-iters="$last_step" --eval-interval=40 --save-interval=5 --lr=3e-3
  --warmup-iters=20 --quiet)
seed=7
random() { # FROM TO: the next number of a fixed sequence, in $random
  seed=$((seed * 16807 % 2147483647))
  random=$(($1 + seed / 8 % ($2 - $1 + 1)))
}

# The steps that were the last of a run before it ended, for the line at the end.
runs=0 stopped_at=()

same() { # NAME DIR DIR: equal in every number and every byte
  check "$1: each step once" each_step_once "$2/metrics.jsonl" $last_step
  fields "$2/metrics.jsonl" >a
  fields "$3/metrics.jsonl" >b
  check "$1: the same numbers: $(diff a b | head -n 4 | tr '\n' ' ')" cmp a b
  for which in last best; do check "$1: $which.h5, byte for byte" cmp "$2/$which.h5" "$3/$which.h5"; done
  check "$1: no temporary is left" no_temporaries "$2"
}

# point SIGNAL NAME STEP THREADS ARG...: stopped soon after that step, resumed with other threads; compared
# with the folder ref.
point() {
  local signal=$1 name=$2 step=$3 threads=$4 at
  shift 4
  rm -rf run
  stop_at "$signal" run "$step" "$@" --threads="$threads"
  at=$(fields run/metrics.jsonl | tail -n 1 | cut -d' ' -f1)
  if [ "$signal" = TERM ]; then
    check "$name: exit code of SIGTERM" test "$code" = 143
  else
    check "$name: exit code of SIGKILL" test "$code" = 137
  fi
  "$bin/train" --resume=auto --out-dir=run --threads=$((threads % 3 + 1)) --quiet >out 2>err </dev/null
  check "$name: exit code of resuming ($(tail -n 1 err))" test $? = 0
  same "$name, SIG$signal at step $at, $threads threads and then $((threads % 3 + 1))" run ref
  runs=$((runs + 1)) stopped_at+=("$at")
}

points=1
[ -n "${LINA_LONG:-}" ] && points=20
number=0
for spec in "${specs[@]}"; do
  read -ra args <<<"$spec"
  optims=(adamw sgd)
  [ $points = 1 ] && optims=("${optims[number++ % 2]}")
  for optim in "${optims[@]}"; do
    all=("${base[@]}" --attn="${args[0]}" "${args[@]:1}" --optim="$optim")
    rm -rf ref
    run 0 train "${all[@]}" --out-dir=ref --threads=2
    for ((i = 0; i < points; i++)); do
      random 15 95
      step=$random
      random 0 5 # signal and threads
      point "$( ((random % 2)) && echo TERM || echo KILL)" "$optim, $spec" "$step" $((random / 2 + 1)) "${all[@]}"
    done
  done
done
# --- within a step of eight batches ---
# A run that is told to stop between the line of step N and that of N + 1 ends after N + 1 only if that step
# had begun: of its time nearly all is forward and backward of the eight.
args=("${base[@]}" --n-embd=64 --block-size=64 --batch-size=8 --grad-accum=8 --dropout=.1 --max-iters=10
  --eval-interval=10 --save-interval=10 --quiet=off)
last_step=10 within=0
rm -rf ref
run 0 train "${args[@]}" --out-dir=ref --threads=2
for ((i = 0; i < 3 * points || (within == 0 && i < 200); i++)); do # one at least, on a busy machine too
  rm -rf run
  start "${args[@]}" --out-dir=run --threads=2
  random 1 6
  await_step run "$random"
  random 10 99
  sleep .0"$random"
  kill -s TERM "$pid"
  written=$(wc -l <run/metrics.jsonl)
  wait "$pid"
  code=$?
  [ "$code" = 0 ] && continue # it was faster
  after=$(sed -nE 's/^stopped by SIGTERM after step ([0-9]+);.*/\1/p' out)
  check "eight batches: exit code" test "$code" = 143
  check "eight batches: it ends within a step (line $((written - 1)), step ${after:-none})" \
    test "${after:-0}" -ge $((written - 1)) -a "${after:-99}" -le "$written"
  [ "$after" = "$written" ] && within=$((within + 1))
  run 0 train --resume --out-dir=run --threads=$((i % 3 + 1)) --quiet
  same "eight batches, stopped after step $after" run ref
done
check "eight batches: a signal came within a step" test $within -gt 0
echo "$within of $i signals came between the batches of a step"

# --- the reference run, with a text of its size ---
if [ -n "${LINA_LONG:-}" ]; then
  text 1115394 5 >t.txt
  last_step=2000
  args=(--data=t.txt --attn=elu1 --quiet)
  rm -rf ref
  "$bin/train" "${args[@]}" --out-dir=ref --threads=2 >out 2>err
  check "the reference run" test $? = 0
  point TERM "the reference run" 700 2 "${args[@]}"
  point KILL "the reference run" 1300 3 "${args[@]}"
fi

echo "$runs runs were stopped or killed, and resumed; the last steps before that: ${stopped_at[*]}"
finish
