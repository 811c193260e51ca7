#!/usr/bin/env bash
# task.sh -- retrieval tasks: a run that learns one, what it prints and leaves, stop and resume, and what
# a task does not go with.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

# --- a run learns ---
learns=(--task=induction:vocab=6,length=12 --n-layer=2 --n-embd=32 --n-head=2 --short-conv=2 --batch-size=32
  --lr=1e-2 --warmup-iters=20 --max-iters=1000 --eval-interval=50)
run 0 train "${learns[@]}" --stop-at=.9
err_empty
out_says '^induction: vocabulary 6, rows of 12 tokens, 1 label a row; accuracy at chance 0\.2000$'
out_says '^step 50/1000 5% \| loss [0-9.]+ \| acc [01]\.[0-9]{4} \| val [0-9.]+ \| val acc [01]\.[0-9]{4} \| norm '
out_says '^reached (0\.9[0-9]{3}|1\.0000) of the labels of test rows: ended at step [0-9]+$'
out_says '^done: step [0-9]+ \| val loss 0\.[0-9]{4} \| val acc (0\.9[0-9]{3}|1\.0000) \(chance 0\.2000\) \| '
dir=runs/softmax-conv2-induction-vocab-6-length-12-s1337
for file in run.json metrics.jsonl last.h5 best.h5; do check "$file is there" test -s $dir/$file; done
check "metrics are JSON" json_lines $dir/metrics.jsonl
check "accuracies are in them" grep -qE '^\{"step": 50, "loss": [^,]+, "accuracy": [^,]+, "val_loss": [^,]+, "val_accuracy": [^,]+, ' $dir/metrics.jsonl
check "no text" grep -q '"corpus_bytes": 0,' $dir/run.json
reached=$(grep -oE 'val acc [0-9.]+' out | tail -n 1)
run 0 train --eval-only --resume --out-dir=$dir
out_says "^evaluated: 1024 rows \\| val loss [0-9.]+ \\| $reached \\(chance"
run 0 train --eval-only --init-from=$dir/last.h5 --task=induction:vocab=6,length=12 --batch-size=3 --seed=5
out_says "^evaluated: 1024 rows \\| val loss [0-9.]+ \\| $reached \\(chance" # the same rows
cp $dir/metrics.jsonl before
run 0 train --resume --out-dir=$dir # it had ended
out_says '^reached '
check "nothing was added" cmp before $dir/metrics.jsonl

# --- no text comes from it ---
run 4 generate --checkpoint $dir/best.h5
err_says 'learnt the task induction:vocab=6,length=12, whose ids are no text'
run 4 generate --checkpoint $dir/best.h5 --prompt=a --show-attention=a.h5
check "no attention of a text" test ! -e a.h5

# --- stop and resume, accumulated and recomputed ---
text 20000 >t.txt
small=("${learns[@]:1}" --max-iters=120 --eval-interval=20 --quiet=off)
for task in mqar:vocab=32,length=24 copy:length=9 needle:length=40,distance=20; do
  name=${task%%:*}
  args=("${small[@]}" --task=$task)
  [ "$name" = needle ] && args+=(--data=t.txt)
  [ "$name" = mqar ] && args+=(--grad-accum=2)
  run 0 train "${args[@]}" --out-dir="$name.ref"
  stop_at TERM "$name" 50 "${args[@]}"
  check "exit code of SIGTERM" test $code = 143
  run 0 train --resume --out-dir="$name"
  fields "$name/metrics.jsonl" >a
  fields "$name.ref/metrics.jsonl" >b
  check "$name: the same numbers" cmp a b
  for which in last best; do check "$name: the same weights" same_weights "$name/$which.h5" "$name.ref/$which.h5"; done
  run 0 train "${args[@]}" --recompute --out-dir="$name.again"
  fields "$name.again/metrics.jsonl" >a
  check "$name: --recompute gives the same" cmp a b
done
out_says '^t\.txt: 18[0-9]+ tokens to train on, 2[0-9]+ to validate, vocabulary [0-9]+$'
out_says '^needle: vocabulary [0-9]+, rows of 40 tokens, 1 label a row; accuracy at chance 0\.0625$'
run 0 train --eval-only --resume --out-dir=needle
out_says '^evaluated: 1024 rows .*chance 0\.0625'
run 4 generate --checkpoint needle/best.h5
text 20000 7 >other.txt
run 3 train --resume --out-dir=needle --data=other.txt --max-iters=130
run 0 train "${args[@]}" --val-frac=0 --max-iters=3 --out-dir=no-test
check_not "no test rows without a validation text" grep -q val_accuracy no-test/metrics.jsonl

# --- stopped within the evaluation of step 0, and within that of the last step ---
args=("${small[@]}" --task=mqar:vocab=32,length=512,pairs=2 --max-iters=2 --eval-interval=2)
run 0 train "${args[@]}" --out-dir=eval.ref
accuracies() { grep -oE '"step": [0-9]+|"val_[a-z]+": [^,}]+' "$1"; }
for step in 0 2; do
  start "${args[@]}" --out-dir=eval$step
  await_step eval$step $((step - 1))
  until [ -e eval$step/metrics.jsonl ]; do sleep .02; done
  sleep .1
  kill -s TERM "$pid"
  wait "$pid"
  run 0 train --resume --out-dir=eval$step
  accuracies eval$step/metrics.jsonl >a
  accuracies eval.ref/metrics.jsonl >b
  check "stopped in the evaluation of step $step: the same accuracies" cmp a b
  check "metrics are JSON" json_lines eval$step/metrics.jsonl
done

# --- other ways to run ---
run 0 train "${small[@]}" --task=mqar --dry-run
out_says "^mqar: vocabulary 256, rows of 64 tokens, 4 labels a row; accuracy at chance 0\.0078; a guess among the row's values 0\.2500$"
out_says '^dry run: loss 5\.[0-9]+'
run 0 train "${small[@]}" --task=mqar:vocab=32,length=16,pairs=2 --overfit-batch --max-iters=200 --out-dir=heart
check "one batch is learnt by heart" grep -q '^{"step": 200,.*"accuracy": 1,' heart/metrics.jsonl
run 0 train "${small[@]}" --task=copy:length=9 --eval-iters=1 --max-iters=2 --out-dir=few
run 0 train --list-tasks
for task in mqar copy induction needle; do out_says "^$task: "; done

# --- what does not go together ---
use() { refused 2 "$1" train --out-dir=new "${@:2}"; }
use 'unknown task "mqra": did you mean mqar\?' --task=mqra
use 'did you mean pairs\?' --task=mqar:pair=4
use 'length must be even, and is 63' --task=mqar:length=63
use 'pairs=20 needs length=80' --task=mqar:pairs=20
use 'instead of --data' --task=mqar --data=t.txt
use 'no text for --val-data' --task=mqar --val-data=t.txt
use 'no text for --val-frac' --task=mqar --val-frac=.2
use 'no text for --tokenizer' --task=mqar --tokenizer=byte
use '--data FILE, which names it, is missing' --task=needle
use '--objective mlm' --task=mqar --objective=mlm
use '--sample-every writes text' --task=mqar --sample-every=5
use 'have 64 tokens: leave it out' --task=mqar --block-size=32
use 'only --task has' --data=t.txt --stop-at=.5
use '--stop-at must be from 0 to 1' --task=mqar --stop-at=2
refused 3 'block-size 256' train --out-dir=new --task=needle --data=t.txt --val-frac=.01
refused 2 '--task is .* in the checkpoint and cannot become' train --resume=$dir/last.h5 --out-dir=new --task=copy
refused 2 'unknown option' generate --task=copy --checkpoint=$dir/best.h5
finish
