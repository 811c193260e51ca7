#!/usr/bin/env bash
# plan.sh -- the memory that train plans is what it takes, within 5 % and 8 MB: six runs, and with LINA_LONG=1
# over fifty.  What --dry-run says, and what is refused.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

# --- the time that --dry-run tells ---
text 40000 >t.txt
run 0 train "${tiny[@]}" --data=t.txt --max-iters=25 --eval-interval=10 --dry-run
out_says '^dry run: loss [0-9.]+, [0-9.]+ ms a step, [0-9.]+ ms an evaluation, about [0-9:]+ \([0-9.]+ s\) for 25 steps and 4 evaluations; nothing was written$'
# shellcheck disable=SC2016 # awk
check "the time is that of steps and evaluations" awk 'match($0, /loss.*/) {
  n = split(substr($0, RSTART), w, /[ (]+/)
  for (i = 2; i <= n; i++) {
    if (w[i] == "ms" && w[i + 2] == "step,") step = w[i - 1]
    if (w[i] == "ms" && w[i + 2] == "evaluation,") evaluation = w[i - 1]
    if (w[i] == "s)") all = w[i - 1] }
  off = all - (25 * step + 4 * evaluation) / 1e3
  exit !(step > 0 && evaluation > 0 && off < .002 && off > -.002) }' <(grep '^dry run' out)
out_says '^[0-9]+ parameters; memory about [0-9.]+ MiB: .* step [0-9.]+ .*, evaluation [0-9.]+, saving [0-9.]+, samples 0\.0, text 0\.1, program [0-9.]+'
evaluations() { # NUMBER ARG...
  run 0 train "${tiny[@]}" --data=t.txt --dry-run --quiet "${@:2}"
  out_says " steps and $1 evaluations; "
}
evaluations 5 --max-iters=40 --eval-interval=10
evaluations 2 --max-iters=9 --eval-interval=10
evaluations 0 --max-iters=40 --val-frac=0
evaluations 1 --max-iters=0
run 0 train "${tiny[@]}" --data=t.txt --max-iters=20 --eval-interval=10 --quiet --out-dir=run
run 0 train --resume --out-dir=run --max-iters=40 --dry-run
out_says ' for 20 steps and 2 evaluations; '
run 0 train --resume --out-dir=run --max-iters=45 --dry-run
out_says ' for 25 steps and 3 evaluations; '
run 0 train --resume --out-dir=run --eval-interval=15 --dry-run
out_says ' for 0 steps and 0 evaluations; '

# --- too much ---
rm -rf new
refused 6 'the training needs [0-9.]+ MiB and [0-9.]+ MiB are free: weights, gradients and optimiser take [0-9.]+, the step [0-9.]+, .*; try --recompute, or a smaller --batch-size' \
  train "${tiny[@]}" --data=t.txt --out-dir=new --n-layer=100 --n-embd=256 --batch-size=1000000 --dry-run

# --- plan and measurement ---
if sanitized; then
  skipped "measured memory: a sanitizer has memory of its own"
  finish
fi

# --- the limit of a cgroup ---
group=$(mktemp -d /sys/fs/cgroup/memory/lina.XXXXXX 2>/dev/null || mktemp -d /sys/fs/cgroup/lina.XXXXXX 2>/dev/null)
for limit in memory.limit_in_bytes memory.max; do # version 1, version 2
  [ -n "$group" ] && [ -e "$group/$limit" ] && [ -e "$group/cgroup.procs" ] && echo $((96 << 20)) 2>/dev/null >"$group/$limit" &&
    (echo "$BASHPID" >"$group/cgroup.procs") 2>/dev/null && break # one may go in
  limit=
done
if [ -n "$limit" ]; then
  # shellcheck disable=SC2016
  grouped() { bash -c 'echo $$ >"$1/cgroup.procs"; exec timeout 60 "$2/train" "${@:3}"' - "$group" "$bin" "$@" >out 2>err </dev/null; }
  grouped "${tiny[@]}" --data=t.txt --out-dir=group --max-iters=4
  check "96 MiB in a cgroup are enough for a small run" test $? = 0
  rm -rf group
  grouped "${tiny[@]}" --data=t.txt --out-dir=group --n-embd=256 --n-layer=8 --block-size=256 --batch-size=16
  check "and not for a large one" test $? = 6
  err_says '^train: the training needs [0-9]{3,}\.[0-9] MiB and [0-9]{2}\.[0-9] MiB are free: '
  check "nothing was written" test ! -e group
else
  skipped "a limit of a cgroup: no right to make one with a limit on memory"
fi
[ -n "$group" ] && rmdir "$group"

text 3000000 2 >long.txt
config() { # OPTIONS: of a run of a few steps, which evaluates, saves and, if asked to, samples twice
  read -ra args <<<"$1"
  [[ $1 == *--task=* || $1 == *--data=* ]] || args+=(--data=t.txt)
  peak train --max-iters=4 --eval-interval=2 --out-dir=run --overwrite "${args[@]}"
  planned=$(sed -nE 's/^[0-9]+ parameters.*; memory about ([0-9.]+) MiB: .*/\1/p' out)
  runs=$((runs + 1))
  said=$(awk -v planned="${planned:-0}" -v high="$high" -v worst="$worst" 'BEGIN {
    high /= 1024
    off = planned - high
    most = .05 * high + 8e6 / 1048576
    used = (off < 0 ? -off : off) / most
    printf "%.3f %.1f MiB planned, %.1f measured: %+.1f MiB, %+.1f %%", used, planned, high, off, 100 * off / high }')
  check "$1: ${said#* }" below "${said%% *}" 1
  below "$worst" "${said%% *}" && worst=${said%% *} worst_said="$1: ${said#* }"
  [ -n "${LINA_LONG:-}" ] && echo "$1: ${said#* }"
  rm -rf run
}
runs=0 worst=-1 worst_said=
few=(
  "--attn=softmax --n-layer=1 --n-embd=16 --n-head=2 --block-size=16 --batch-size=2"
  "--attn=elu1 --n-embd=256 --block-size=256 --batch-size=4 --sample-every=2"
  "--attn=double-softmax --n-embd=128 --block-size=128 --optim=sgd --recompute --dropout=.1"
  "--attn=linformer:r=16 --objective=mlm --n-embd=64 --grad-accum=3 --tokenizer=byte"
  "--task=mqar:length=64,pairs=4 --attn=cosine --n-layer=2 --n-embd=64 --batch-size=64"
  "--attn=window:w=16 --n-embd=192 --n-layer=3 --val-data=long.txt --eval-iters=20 --threads=3"
)
many=(
  "--attn=none --n-embd=512 --n-layer=8 --block-size=64 --batch-size=4"
  "--attn=softmax --n-embd=384 --n-layer=6 --n-head=6 --block-size=256 --batch-size=8"
  "--attn=softmax --n-embd=384 --n-layer=6 --n-head=6 --block-size=256 --batch-size=8 --recompute"
  "--attn=softmax --n-embd=384 --n-layer=6 --n-head=6 --block-size=256 --batch-size=8 --optim=sgd"
  "--attn=softmax --block-size=2048 --batch-size=1 --n-layer=2"
  "--attn=softmax --pos=rope --block-size=512 --sample-every=2 --prompt=The"
  "--attn=softmax --n-layer=1 --n-embd=16 --n-head=1 --block-size=8 --batch-size=1 --threads=1"
  "--attn=elu1 --n-layer=24 --n-embd=64 --block-size=64"
  "--attn=elu1 --n-layer=150 --n-embd=16 --n-head=2 --block-size=16 --batch-size=1"
  "--attn=elu1 --block-size=8192 --batch-size=1 --val-frac=.3 --pos=none"
  "--attn=elu1 --block-size=8192 --batch-size=1 --val-frac=.3 --pos=none --recompute"
  "--attn=elu1 --short-conv=4 --n-embd=256 --dropout=.2"
  "--attn=relu --n-embd=128 --batch-size=32"
  "--attn=relu2 --n-embd=256 --bias"
  "--attn=exp --n-embd=128 --block-size=256"
  "--attn=softplus --n-embd=64 --batch-size=64"
  "--attn=sigmoid --n-embd=320 --n-layer=2 --optim=sgd"
  "--attn=taylor2:d=8 --n-embd=128 --block-size=128"
  "--attn=taylor2:d=8,decay=.9 --n-embd=128 --block-size=128"
  "--attn=taylor2:d=16 --n-embd=64 --n-head=2 --batch-size=4"
  "--attn=favor:m=64,redraw=2 --n-embd=128"
  "--attn=rff:m=32 --n-embd=128 --sample-every=2"
  "--attn=dpfp:nu=2 --n-embd=128 --block-size=128"
  "--attn=cosformer --n-embd=256 --pos=rope"
  "--attn=hedgehog:m=16 --n-embd=128"
  "--attn=t2r --n-embd=128 --batch-size=24"
  "--attn=cosine --n-embd=512 --n-layer=2 --block-size=128"
  "--attn=kernel:q=elu1,k=relu --n-embd=128"
  "--attn=double-softmax --n-embd=256 --block-size=256 --batch-size=8"
  "--attn=double-softmax --objective=mlm --n-embd=128 --block-size=256"
  "--attn=window:w=128 --block-size=1024 --batch-size=2"
  "--attn=sparse-strided --block-size=512 --batch-size=4 --n-embd=128"
  "--attn=sparse-fixed:s=16,c=4 --block-size=256"
  "--attn=lsh:buckets=8,c=32,rounds=2 --block-size=256 --n-embd=128"
  "--attn=elu1/window:w=32 --n-layer=6 --n-embd=192 --n-head=6"
  "--attn=elu1@2+window@2 --n-embd=256 --sample-every=2"
  "--attn=elu1:norm=rms,decay=learned/softmax --n-embd=128 --grad-accum=4"
  "--task=copy --n-layer=2 --n-embd=128"
  "--task=induction:length=128 --attn=elu1 --n-embd=128 --batch-size=32"
  "--task=mqar:vocab=4096,length=256,pairs=16 --n-layer=2 --n-embd=256 --batch-size=16"
  "--task=needle --data=long.txt --attn=softmax --n-embd=64"
  "--data=long.txt --n-layer=2 --n-embd=64 --block-size=64"
  "--data=long.txt --tokenizer=byte --n-layer=2 --n-embd=64 --block-size=64 --eval-iters=10"
  "--data=long.txt --val-data=t.txt --n-layer=2 --n-embd=64 --optim=sgd"
  "--attn=softmax --objective=mlm --n-embd=384 --n-head=6 --batch-size=16"
)
for each in "${few[@]}"; do config "$each"; done
if [ -n "${LINA_LONG:-}" ]; then
  for each in "${many[@]}"; do config "$each"; done
  check "fifty runs at least" test $runs -ge 50
fi
echo "$runs runs; the worst, by what is allowed: $worst_said"
finish
