#!/usr/bin/env bash
# nonfinite.sh -- steps whose numbers are not finite: the run ends, leaves them out, or goes back.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 20000 >t.txt
# Weights grow without bound within a few steps; from then on no step is finite.
wild=("${tiny[@]}" --data t.txt --optim=sgd --lr=100 --min-lr=100 --grad-clip=0 --warmup-iters=0 --max-iters=50 --eval-iters=2
  --threads=1 --quiet)

run 5 train "${wild[@]}" --out-dir=stop
err_says '^train: step [0-9]+: (the gradient of )?(transformer|lm_head)\.[a-z_.0-9]+ .*is (infinite|not a number) at row .*; try a smaller --lr'
steps=$(wc -l <stop/metrics.jsonl) # with that of step 0

run 5 train "${wild[@]}" --save-interval=1 --out-dir=advice
going=$(sed -nE 's/^train: .*, as in: train //p' err)
eval "\"$bin/train\" $going --max-iters=1000" >out 2>err # its rates are allowed; whether they are small enough is another matter
check "the advice is a command: $(head -n 1 err)" test $? = 0 -o $? = 5
check_not "with options that are taken" grep -q 'must' err

run 5 train "${wild[@]}" --on-nonfinite=skip:3 --out-dir=skip
check "three steps were left out, and it says which" test "$(grep -cE '^warning: step [0-9]+: .*the step is left out, [123] of at most 3 in a row' err)" = 3
err_says 'after 3 steps in a row that were left out'
check "each has its line" test "$(wc -l <skip/metrics.jsonl)" = $((steps + 3))
check "without a loss, with a count" test "$(grep '"skipped": ' skip/metrics.jsonl | grep -vc '"loss"')" = 3
check "the steps before are as they were" cmp <(head -n "$steps" stop/metrics.jsonl | fields /dev/stdin) <(head -n "$steps" skip/metrics.jsonl | fields /dev/stdin)
check "each step once" each_step_once skip/metrics.jsonl $((steps + 2))

# What was left out is counted on after a resume in the middle.
run 5 train "${wild[@]}" --val-frac=0 --on-nonfinite=skip:5 --out-dir=five
run 0 train "${wild[@]}" --val-frac=0 --on-nonfinite=skip:5 --max-iters=$(($(wc -l <five/metrics.jsonl) - 4)) --out-dir=parts
check "two were left out" test "$(grep -c '"skipped": ' parts/metrics.jsonl)" = 2
run 5 train --resume --out-dir=parts --max-iters=50
err_says 'left out, 3 of at most 5 in a row'
err_says 'after 5 steps in a row that were left out'
check "as without the stop" cmp <(numbers five) <(numbers parts)

# Weights on the edge, where some batches are finite and some are not: the last update before the numbers grew out of
# range is made again at a rate X, and all after it at a rate of 0, so that only the batches differ. X is searched for.
run 5 train "${wild[@]}" --val-frac=0 --save-interval=1 --out-dir=wild
grown=$(($(wc -l <wild/metrics.jsonl) - 1)) # the step of last.h5
run 0 train "${wild[@]}" --val-frac=0 --save-interval=1 --max-iters=$grown --out-dir=tame
check "the last good checkpoint is that of the step before" same_weights wild/last.h5 tame/last.h5
rest=(--lr=0 --min-lr=0 --max-iters=$((grown + 40)) --save-interval=1000)
make_edge() { # X: the folder edge.was, with that update made
  rm -rf edge.was
  mkdir edge.was
  cp wild/last.1.h5 edge.was/last.h5
  run 0 train --resume=last --out-dir=edge.was --lr="$1" --min-lr="$1" --max-iters=$grown --keep=1
}
at_rest() { # CODE DIR ARG...: 40 steps without updates
  local want=$1 dir=$2
  rm -rf "$dir"
  cp -r edge.was "$dir"
  run "$want" train --resume=last --out-dir="$dir" "${rest[@]}" "${@:3}"
}
left_out() { # DIR: how many steps, the most in a row, and the second step of those
  awk '{ step = $2 + 0 }
    /"skipped": / { all++; if (++n > most) { most = n; second = step - n + 2 } next } { n = 0 }
    END { print all + 0, most + 0, second + 0 }' "$1/metrics.jsonl"
}
low=-8 high=2 # decimal logarithms of X
for _ in $(seq 40); do
  middle=$(awk -v a="$low" -v b="$high" 'BEGIN { printf "%.17g", (a + b) / 2 }')
  make_edge "$(awk -v x="$middle" 'BEGIN { printf "%.17g", 10 ^ x }')"
  at_rest 0 edge --on-nonfinite=skip:1000
  read -r all most second <<<"$(left_out edge)"
  if [ "$all" -gt 36 ]; then high=$middle; elif [ "$most" -lt 2 ] || [ "$all" = "$most" ]; then low=$middle; else break; fi
done
check "of 40 steps some are left out, and some are not: $all, $most in a row" test "$most" -ge 2 -a "$all" -gt "$most" -a "$all" -le 36
at_rest 0 most --on-nonfinite=skip:"$most" # a step that is finite begins the count anew
check "the same steps" cmp <(numbers edge) <(numbers most)
at_rest 5 fewer --on-nonfinite=skip:$((most - 1))
for limit in "$most" $((most - 1)); do # stopped and resumed between two steps that are left out
  at_rest 0 "parts$limit" --on-nonfinite=skip:"$limit" --max-iters="$second"
  check "stopped after two in a row" test "$(tail -n 1 "parts$limit/metrics.jsonl" | grep -c '"skipped": 2')" = 1
  run $((limit == most ? 0 : 5)) train --resume --out-dir="parts$limit" --max-iters=$((grown + 40))
done
check "resumed in the middle: the same steps" cmp <(numbers edge) <(numbers "parts$most")
check "and the same weights" same_weights edge/last.h5 "parts$most/last.h5"
check "fewer in a row: it ends where it did without a stop" cmp <(numbers fewer) <(numbers "parts$((most - 1))")

run 5 train "${wild[@]}" --on-nonfinite=rollback --save-interval=1 --out-dir=back
check "three rollbacks" test "$(grep -cE '^warning: step [0-9]+: .*back to the weights of step [0-9]+, .*half the learning rate' err)" = 3
err_says 'lr 50; rollbacks left: 2'
err_says 'lr 12.5; rollbacks left: 0'
err_says 'no rollback is left'
err_says "^warning: step $steps: .*back to the weights of step $((steps - 1)), " # the newest
check "from there on the rate is halved" test "$(fields back/metrics.jsonl | awk '$2 == "-" && $1 > 0 { print $4; exit }')" = 50
run 5 train --resume --out-dir=back # the rollbacks that are left and the rate are in the checkpoint
err_says 'no rollback is left'
check_not "none more is made" grep -q 'back to the weights' err
run 0 train "${wild[@]}" --on-nonfinite=rollback --save-interval=$((steps - 2)) --max-iters="$steps" --out-dir=older
err_says "back to the weights of step $((steps - 2)), "
check "weights and moments are those of the checkpoint" same_weights older/last.h5 older/last.1.h5
run 5 train "${wild[@]}" --val-frac=0 --on-nonfinite=rollback --out-dir=none
check_not "without a checkpoint there is nothing to go back to" grep -q 'back to the weights' err

if strace -f -o /dev/null true 2>/dev/null; then # the newest checkpoint cannot be read: the other one
  last="train, last.h5 unreadable"
  ASAN_OPTIONS=detect_leaks=0 strace -f -o /dev/null -P other/last.h5 -e trace=openat -e inject=openat:error=EIO \
    "$bin/train" "${wild[@]}" --on-nonfinite=rollback:1 --save-interval=1 --eval-interval=2 --out-dir=other >out 2>err
  check "exit code" test $? = 5
  err_says '^skipped last\.h5: cannot read other/last\.h5: Input/output error'
  best=$(fields other/metrics.jsonl | awk '$3 != "-" && (!n++ || $3 + 0 < least) { least = $3 + 0; step = $1 } END { print step }')
  err_says "back to the weights of step $best, "
else
  skipped "a newest checkpoint that cannot be read: no strace"
fi

# A rate that rises a little with each step, until the loss jumps.
run 0 train "${tiny[@]}" --data=t.txt --lr=10 --min-lr=10 --warmup-iters=2000 --grad-clip=0 --max-iters=250 --out-dir=spike
check "a loss spike is told" grep -qE '^note: loss spike at step [0-9]+: [0-9.]+ against a median of [0-9.]+$' err
step=$(sed -nE 's/^note: loss spike at step ([0-9]+): .*/\1/p' err | head -n 1)
check "with the loss of that step" grep -q "at step $step: $(printf %.4f "$(fields spike/metrics.jsonl | awk -v s="$step" '$1 == s { print $2 }')") " err
run 0 train "${tiny[@]}" --data=t.txt --lr=10 --min-lr=10 --warmup-iters=2000 --grad-clip=0 --max-iters=250 --quiet --out-dir=hush
err_empty

refused 2 'skip:K with K from 1 on' train --data t.txt --on-nonfinite=skip --out-dir=new
refused 2 'skip:K with K from 1 on' train --data t.txt --on-nonfinite=skip:0 --out-dir=new
refused 2 'and is "roll"' train --data t.txt --on-nonfinite=roll --out-dir=new
finish
