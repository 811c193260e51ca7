#!/usr/bin/env bash
# nonfinite.sh -- steps whose numbers are not finite: the run ends, leaves them out, or goes back.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 20000 >t.txt
# Weights grow without bound within a few steps; from then on no step is finite.
wild=("${tiny[@]}" --data t.txt --optim=sgd --lr=100 --min-lr=100 --grad-clip=0 --warmup-iters=0 --max-iters=50 --eval-iters=2
  --threads=1 --quiet)

run 5 train "${wild[@]}" --out-dir=stop
err_says '^train: step [0-9]+: .*(infinite|not a number|not finite).*try a smaller --lr'
steps=$(wc -l <stop/metrics.jsonl) # with that of step 0

run 5 train "${wild[@]}" --on-nonfinite=skip:3 --out-dir=skip
check "three steps were left out, and it says which" test "$(grep -cE '^warning: step [0-9]+: .*the step is left out, [123] of at most 3 in a row' err)" = 3
err_says 'after 3 steps in a row that were left out'
check "each has its line" test "$(wc -l <skip/metrics.jsonl)" = $((steps + 3))
check "without a loss, with a count" test "$(grep '"skipped": ' skip/metrics.jsonl | grep -vc '"loss"')" = 3
check "the steps before are as they were" cmp <(head -n "$steps" stop/metrics.jsonl | fields /dev/stdin) <(head -n "$steps" skip/metrics.jsonl | fields /dev/stdin)
check "each step once" each_step_once skip/metrics.jsonl $((steps + 2))

run 5 train "${wild[@]}" --on-nonfinite=rollback --save-interval=1 --out-dir=back
check "three rollbacks" test "$(grep -cE '^warning: step [0-9]+: .*back to the weights of step [0-9]+, .*half the learning rate' err)" = 3
err_says 'lr 50; rollbacks left: 2'
err_says 'lr 12.5; rollbacks left: 0'
err_says 'no rollback is left'
run 5 train "${wild[@]}" --val-frac=0 --on-nonfinite=rollback --out-dir=none
check_not "without a checkpoint there is nothing to go back to" grep -q 'back to the weights' err

refused 2 'skip:K with K from 1 on' train --data t.txt --on-nonfinite=skip --out-dir=new
refused 2 'skip:K with K from 1 on' train --data t.txt --on-nonfinite=skip:0 --out-dir=new
refused 2 'and is "roll"' train --data t.txt --on-nonfinite=roll --out-dir=new
finish
