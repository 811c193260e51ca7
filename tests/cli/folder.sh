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
finish
