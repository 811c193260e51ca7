#!/usr/bin/env bash
# kills.sh -- kill -9 at random moments of a run that saves after every step: each file is whole, no checkpoint is
# lost, and what was killed again and again ends with the bits of the run that was not.
# 20 kills, 200 with LINA_LONG=1; SEED chooses other moments.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 20000 >t.txt
args=("${tiny[@]}" --data=t.txt --max-iters=120 --eval-interval=10 --save-interval=1 --keep=3 --lr=3e-3 --csv
  --sample-every=4 --log-interval=1 --quiet=off)
run 0 train "${args[@]}" --out-dir=ref
fields ref/metrics.jsonl >ref.fields

wanted=20
[ -n "${LINA_LONG:-}" ] && wanted=200
RANDOM=${SEED:-1}
kills=0 lost=0 files=0 ends=0 midst=0
saved=-1 # last.h5 is at least of this step

ended() { # what must hold of a run that has come to its end
  ends=$((ends + 1))
  check "each step once" each_step_once run/metrics.jsonl 120
  fields run/metrics.jsonl >run.fields
  check "the same numbers" cmp run.fields ref.fields
  check "a line of metrics.csv for each" test "$(wc -l <run/metrics.csv)" = 122
  for which in last last.1 last.2 best; do
    check "the same bytes of $which.h5 after $kills kills" cmp run/$which.h5 ref/$which.h5
  done
  check "the same samples after $kills kills" cmp run/samples.txt ref/samples.txt
  check "no temporary is left" no_temporaries run
}

# On a machine so fast that most runs end before their kill, until enough were in the midst of the steps.
while ((kills < wanted || (midst < wanted / 4 && kills < 20 * wanted))); do
  if compgen -G 'run/*.h5' >/dev/null; then
    start --resume=auto --out-dir=run
  else
    start "${args[@]}" --out-dir=run --overwrite
  fi
  # three of four after some steps more, and one of four while it starts and reads
  step=$((saved + 2 + RANDOM % 30))
  ((RANDOM % 4)) && await_step run $((step < 120 ? step : 120))
  sleep "$(printf .%03d $((RANDOM % 40)))"
  kill -s KILL "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  code=$?
  check "nothing was skipped: $(head -n 1 err)" test ! -s err
  # the first line is of the step after the one that was resumed
  first=$(sed -nE 's/^step ([0-9]+)\/.*/\1/p' out | head -n 1)
  if [ -n "$first" ] && [ "$first" -le $saved ]; then
    lost=$((lost + 1))
    fail "after kill $kills it went on with step $first, though step $saved had been saved"
  fi
  if [ $code = 0 ]; then
    ended
    rm -rf run
    saved=-1
    continue
  fi
  check "it was the kill that ended it" test $code = 137
  kills=$((kills + 1))
  [ -n "$first" ] && midst=$((midst + 1))
  # the line of a step is written after the checkpoint of the step before
  told=0
  [ -f run/metrics.jsonl ] && told=$(wc -l <run/metrics.jsonl)
  [ $((told - 2)) -gt $saved ] && saved=$((told - 2))
  [ $saved -ge 1 ] && check "last.h5 is there" test -s run/last.h5
  for file in run/*.h5; do
    [ -e "$file" ] || continue
    files=$((files + 1))
    check "$file is whole after kill $kills" "$bin/train" --eval-only --init-from="$file" --data=t.txt --quiet
  done
done
if compgen -G 'run/*.h5' >/dev/null; then # what is left of the last run
  run 0 train --resume=auto --out-dir=run
else
  run 0 train "${args[@]}" --out-dir=run --overwrite
fi
ended
check "many kills were in the midst of the steps" test $midst -ge $((wanted / 4))
echo "$kills kills, $midst of them in the midst of the steps, $ends ends; $files checkpoints were whole, $lost were lost"
finish
