#!/usr/bin/env bash
# folder.sh -- the folder of a run: one run at a time, what a killed run left, and which checkpoint is the newest.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 20000 >t.txt
data=("${tiny[@]}" --data=t.txt --eval-interval=10 --lr=3e-3 --warmup-iters=5 --quiet)
args=("${data[@]}" --max-iters=40 --keep=4)
run 0 train "${args[@]}" --out-dir=ref

# --- one run at a time ---
start "${data[@]}" --max-iters=1000000 --out-dir=locked
await_step locked 20
for how in --resume --overwrite --seed=1; do
  run 2 train "${data[@]}" --max-iters=40 --out-dir=locked $how
  err_says '^train: another run is writing to the folder locked: wait for it, or choose another --out-dir$'
  check "$how: nothing on standard output" test ! -s out
done
check "the first goes on" kill -0 "$pid"
written=$(wc -l <locked/metrics.jsonl)
await_step locked $((written + 10))
check "and writes its lines" test "$(wc -l <locked/metrics.jsonl)" -gt "$written"
kill -s KILL "$pid"
wait "$pid" 2>/dev/null
at=$(fields locked/metrics.jsonl | tail -n 1 | cut -d' ' -f1)
check "each step once" each_step_once locked/metrics.jsonl "$at"
run 0 train --resume --out-dir=locked --max-iters=$((at + 20)) # a lock does not outlive its run
check "each step once" each_step_once locked/metrics.jsonl $((at + 20))

# --- what a killed run left ---
temporaries=(last.h5.tmp.123 best.h5.tmp.4567 run.json.tmp.89 last.old.tmp metrics.jsonl.tmp metrics.csv.tmp)
for how in --resume --overwrite; do
  rm -rf left
  cp -r ref left
  for file in "${temporaries[@]}"; do echo half >"left/$file"; done
  echo mine >left/thesis.tmp
  if [ $how = --resume ]; then
    run 0 train --resume --out-dir=left
  else
    run 0 train "${args[@]}" --overwrite --out-dir=left
  fi
  for file in "${temporaries[@]}"; do check "$how: $file is gone" test ! -e "left/$file"; done
  check "$how: other files stay" grep -qx mine left/thesis.tmp
  for file in last.h5 last.1.h5; do check "$how: the same $file" cmp left/$file ref/$file; done
done

# --- killed between saving last.h5 and moving the earlier ones up: after the first name is given, and later ---
for moved in none one all; do
  rm -rf rotating
  cp -r ref rotating
  (cd rotating && mv last.1.h5 last.old.tmp)
  [ $moved = none ] && (cd rotating && mv last.2.h5 last.1.h5 && mv last.3.h5 last.2.h5)
  [ $moved = one ] && (cd rotating && mv last.2.h5 last.1.h5) # last.3.h5 has its place
  run 0 train --resume --out-dir=rotating
  for i in 1 2 3; do check "moved up: $moved" cmp rotating/last.$i.h5 ref/last.$i.h5; done
  check "moved up: no temporary is left" no_temporaries rotating
done

# --- the newest that is valid ---
# last.h5 is of step 40, last.1.h5 of 30, and so on; best.h5 of the step with the lowest loss.
steps=$(fields ref/metrics.jsonl | awk '$3 != "-" && (n == "" || $3 < n) { n = $3; s = $1 } END { print s }')
check "the best is the last" test "$steps" = 40
newest() { # NAME FILE: resuming "some" takes FILE, and ends as it did without
  run 0 train --resume=auto --out-dir=some --quiet=off
  out_says "^resuming from some/$2\$"
  check "$1: as if nothing had been missing" cmp some/last.h5 ref/last.h5
  fields some/metrics.jsonl >a
  fields ref/metrics.jsonl >b
  check "$1: the same numbers" cmp a b
}
some() { # FILE...: a copy of ref without these
  rm -rf some
  cp -r ref some
  for file in "$@"; do rm "some/$file"; done
}
damage() { # FILE...: in some, cut
  for file in "$@"; do
    head -c 5000 "some/$file" >short
    cp short "some/$file"
  done
}
skips() { check "$1 was skipped, with the reason" grep -qE "^skipped some/$1: .*(truncated|damaged)" err; }
some
newest "all there" last.h5
err_empty
some last.h5
newest "no last.h5" best.h5
err_empty
some last.h5 best.h5
newest "neither" last.1.h5
some last.h5 last.1.h5 last.2.h5 best.h5
newest "a gap in the row" last.3.h5
some
damage last.h5 best.h5 last.2.h5
newest "damaged ones" last.1.h5
for file in last.h5 best.h5 last.2.h5; do skips "$file"; done
check "nothing else was skipped" test "$(grep -c '^skipped' err)" = 3
# what is damaged takes no place in the row
some best.h5
damage last.h5
cp some/last.1.h5 good.h5
run 0 train --resume --out-dir=some
skips last.h5
check "the good one stays" cmp some/last.1.h5 good.h5
some
damage last.h5 best.h5 last.1.h5 last.2.h5 last.3.h5
run 4 train --resume=auto --out-dir=some
err_says 'there is no checkpoint to resume from in some'
check "each was skipped" test "$(grep -c '^skipped' err)" = 5
# a best.h5 that is newer than last.h5: killed between the two
some last.h5
cp some/best.h5 best.h5
mv some/last.1.h5 some/last.h5
newest "best.h5 is newer" best.h5

# --- back to an earlier one: what is later makes way, and is kept ---
some
cp some/last.2.h5 some/best.h5 # of step 20
run 0 train --resume=best --out-dir=some --max-iters=25 --lr-decay-iters=40 --save-interval=5
for at in 40 30; do err_says "^note: some/last(\.1)?\.h5 is of step $at, and the run goes back to step 20: it is now some/aside\.$at\.h5\$"; done
check "no other" test "$(grep -c '^note: ' err)" = 2
check "kept as they were" cmp some/aside.40.h5 ref/last.h5
check "each step once" each_step_once some/metrics.jsonl 25
run 0 train --resume --out-dir=some --max-iters=40 --quiet=off --save-interval=10
out_says '^resuming from some/last\.h5$' # of the step that is before those
err_empty
fields some/metrics.jsonl | cut -d' ' -f1,2,4,5 >a # step 25 was evaluated besides
fields ref/metrics.jsonl | cut -d' ' -f1,2,4,5 >b
check "the same numbers in the end" cmp a b
run 0 train --resume=some/aside.30.h5 --out-dir=some --quiet # and forth again
check "a second one of that step" same_weights some/aside.40.1.h5 some/last.h5
some last.3.h5
cp ref/last.3.h5 some/aside.10.h5 # the only one of its step: all others are later
start --resume=some/aside.10.h5 --out-dir=some --max-iters=1000000 --save-interval=1000000 --eval-interval=1000000
await_step some 60 # there were 40
kill -s KILL "$pid"
wait "$pid" 2>/dev/null
run 0 train --resume --out-dir=some --max-iters=40 --quiet=off
out_says '^resuming from some/last\.h5$'
check "gone back and killed before the first save: each step once" each_step_once some/metrics.jsonl 40
some
for file in aside.40.h5 aside.40.2.h5 aside.40.txt aside.h5 aside.4x.h5; do cp some/last.h5 some/$file; done
run 0 train "${args[@]}" --overwrite --out-dir=some
check "--overwrite takes them away" test ! -e some/aside.40.h5 -a ! -e some/aside.40.2.h5
for file in aside.40.txt aside.h5 aside.4x.h5; do check "and no others" test -e some/$file; done

# --- a checkpoint from elsewhere: into no folder that is in use ---
rm -rf other other.was
run 0 train "${data[@]}" --max-iters=10 --seed=3 --out-dir=other
cp -r other other.was
run 2 train --resume=ref/last.1.h5 --out-dir=other --max-iters=40
err_says '^train: ref/last\.1\.h5 is of another folder than other, which is in use: choose an --out-dir that is empty$'
check "the folder in use is as it was" diff -r other other.was
run 0 train --resume=ref/last.1.h5 --out-dir=./ref/ --max-iters=40 # another name for its own
check "the same bytes" cmp ref/last.h5 some/last.h5

# --- lines that are missing before the checkpoint ---
some
head -n 12 ref/metrics.jsonl >some/metrics.jsonl
run 0 train --resume --out-dir=some --max-iters=50
err_says '^warning: some/metrics\.jsonl ends with step 11, and the run goes on from step 40: what was between is missing$'
some metrics.jsonl
run 0 train --resume --out-dir=some --max-iters=50
err_says '^warning: some/metrics\.jsonl has no line, and the run goes on from step 40: what was between is missing$'

# --- the command that goes on is one for the shell ---
odd="a run's \$HOME"
start "${data[@]}" --max-iters=1000000 --out-dir="$odd" --threads=1
await_step "$odd" 20
kill -s TERM "$pid"
wait "$pid"
last="the printed command"
going=$(sed -nE 's/^stopped by SIGTERM after step [0-9]+; go on with: train //p' out)
check "with its threads" grep -qE -- '--threads 1$' <<<"$going"
at=$(fields "$odd/metrics.jsonl" | tail -n 1 | cut -d' ' -f1)
eval "\"$bin/train\" $going --max-iters=$((at + 5))" >out 2>err
check "exit code" test $? = 0
check "it has gone on" each_step_once "$odd/metrics.jsonl" $((at + 5))

# --- a mapped text that becomes shorter ---
if ! sanitized; then
  text 20000000 5 >large.txt
  start "${data[@]}" --data=large.txt --tokenizer=byte --max-iters=1000000 --eval-interval=100000 --save-interval=10 --out-dir=shrunk
  await_step shrunk 20
  : >large.txt
  wait "$pid"
  code=$?
  check "exit code" test $code = 3
  err_says '^stopped: a text was made shorter while it was read; checkpoints are whole: restore the text and go on with --resume$'
  text 20000000 5 >large.txt
  run 0 train --resume --out-dir=shrunk --max-iters=60 --eval-iters=1
  check "each step once" each_step_once shrunk/metrics.jsonl "$(fields shrunk/metrics.jsonl | tail -n 1 | cut -d' ' -f1)"
else
  skipped "a mapped text that becomes shorter: sanitizers have their own ways of ending"
fi
finish
