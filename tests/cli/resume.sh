#!/usr/bin/env bash
# resume.sh -- a run that is stopped, or killed, and resumed ends with the same bits as one that was not.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 40000 >t.txt
base=("${tiny[@]}" --data=t.txt --max-iters=300 --eval-interval=50 --lr=3e-3 --quiet=off)

same() { # NAME DIR DIR [LAST]: two runs that must be equal in every number and weight
  check "$1: each step once" each_step_once "$2/metrics.jsonl" "${4:-300}"
  check "$1: metrics are JSON" json_lines "$2/metrics.jsonl"
  check "$1: the time goes on" time_goes_on "$2/metrics.jsonl"
  fields "$2/metrics.jsonl" >a
  fields "$3/metrics.jsonl" >b
  check "$1: the same numbers in $2 and $3: $(diff a b | head -n 4 | tr '\n' ' ')" cmp a b
  for which in last best; do
    check "$1: the same weights, $which.h5" same_weights "$2/$which.h5" "$3/$which.h5"
  done
  check "$1: no temporary is left" no_temporaries "$2"
}

same_loss() { # DIR DIR: what can be told without h5py or h5diff
  for which in last best; do
    for dir in "$@"; do
      [ -s "$dir.$which" ] && continue
      run 0 train --eval-only --resume=$which --out-dir="$dir" --quiet
      loss_of out >"$dir.$which"
    done
    check "the same loss of $which.h5" cmp "$1.$which" "$2.$which"
  done
}

stopped() { # CODE SIGNAL DIR: what a run says and leaves that was stopped
  check "exit code $code of SIG$2" test "$code" = "$1"
  out_says "^stopped by SIG$2 after step [0-9]+; go on with: train --resume --out-dir $3\$"
  check "a checkpoint is there" test -s "$3/last.h5"
  check "no temporary is left" no_temporaries "$3"
  check "the last line is of that step" test "$(fields "$3/metrics.jsonl" | tail -n 1 | cut -d' ' -f1)" = \
    "$(sed -nE 's/^stopped by .* after step ([0-9]+);.*/\1/p' out)"
}

# --- SIGTERM, and all that is said; every variant, optimiser and number of threads is in points.sh ---
run 0 train "${base[@]}" --out-dir=ref
stop_at TERM term 100 "${base[@]}"
stopped 143 TERM term
run 0 train --resume --out-dir=term
out_says "^resuming from term/last.h5\$"
out_says '^done: step 300 '
# shellcheck disable=SC2016 # awk
check "the time of both parts" awk -v all="$(sed -nE 's/^done: .* \| ([0-9.]+) s \| .*/\1/p' out)" '
  match($0, /"elapsed_s": [^,}]+/) { last = substr($0, RSTART + 13, RLENGTH - 13) }
  END { exit !(all + .06 > last + 0) }' term/metrics.jsonl
same SIGTERM term ref
same_loss term ref

# --- other ways to end, and to go on ---
stop_at INT int 100 "${base[@]}"
stopped 130 INT int
run 2 train "${base[@]}" --out-dir=int
err_says 'int is not empty .*--resume'
run 0 train --resume=last --out-dir=int --threads=1
same "SIGINT, one thread" int ref

stop_at TERM path 130 "${base[@]}" --threads=3
run 0 train --resume=path/last.h5
same "SIGTERM, from three threads to two, by path" path ref

stop_at KILL kill 130 "${base[@]}" --save-interval=20
check "exit code of SIGKILL" test "$code" = 137
run 0 train --resume=auto --out-dir=kill
same SIGKILL kill ref
same_loss kill ref

stop_at TERM twice 70 "${base[@]}"
cp -r twice twice.was
stop_at TERM twice 170 --resume
stopped 143 TERM twice
run 0 train --resume --out-dir=twice
same "stopped twice" twice ref
same_loss twice ref

run 0 train "${base[@]}" --max-iters=100 --lr-decay-iters=300 --out-dir=longer
run 0 train --resume --out-dir=longer --max-iters=300
out_says '^changed on resuming: max-iters was 100, is 300$'
same "resumed for longer" longer ref
cp -r longer longer.was
run 0 train --resume --out-dir=longer
out_says '^nothing left to train: the checkpoint is of step 300 and --max-iters is 300$'
same "resumed after the end" longer ref
check "nothing changed" cmp longer/last.h5 longer.was/last.h5

run 0 train "${base[@]}" --grad-accum=3 --dropout=.1 --out-dir=accum.ref
stop_at TERM accum 100 "${base[@]}" --grad-accum=3 --dropout=.1
stopped 143 TERM accum
run 0 train --resume --out-dir=accum
same "gradient accumulation and dropout" accum accum.ref
same_loss accum accum.ref

run 0 train "${base[@]}" --objective=mlm --grad-accum=2 --out-dir=mlm.ref
stop_at TERM mlm 100 "${base[@]}" --objective=mlm --grad-accum=2
stopped 143 TERM mlm
run 0 train --resume --out-dir=mlm
same "the masked objective" mlm mlm.ref
same_loss mlm mlm.ref

# --- the best stays the best ---
run 0 train "${base[@]}" --max-iters=100 --out-dir=best
cp best/best.h5 best.h5
run 0 train --resume --out-dir=best --max-iters=200 --lr=10 --min-lr=10
check "the loss is higher since" below "$(val_loss best/metrics.jsonl 100)" "$(val_loss best/metrics.jsonl 200)"
check "and best.h5 is the one from before" cmp best/best.h5 best.h5
out_says '^done: step 200 .* \(best: step 100, '

# --- a checkpoint without the rest of its folder ---
args=("${tiny[@]}" --data=t.txt --eval-interval=20 --quiet)
run 0 train "${args[@]}" --max-iters=40 --lr-decay-iters=60 --out-dir=half
run 0 train "${args[@]}" --max-iters=60 --out-dir=whole
cp -r half bare
rm bare/metrics.jsonl
run 0 train --resume --out-dir=bare --max-iters=60
run 0 train --resume=half/last.h5 --out-dir=elsewhere --max-iters=60
cp -r half torn
printf '{"step": 41, "lo' >>torn/metrics.jsonl
run 0 train --resume --out-dir=torn --max-iters=60
fields whole/metrics.jsonl >b
fields torn/metrics.jsonl >a
check "a torn last line is dropped" cmp a b
tail -n 20 b >c
for dir in bare elsewhere; do
  check "$dir goes on" test -s $dir/last.h5
  fields "$dir/metrics.jsonl" | tail -n 20 >a
  check "$dir: the same numbers" cmp a c
  check "$dir: the same weights" same_weights $dir/last.h5 whole/last.h5
done

# --- within an evaluation ---
text 600000 3 >long.txt # an evaluation takes much longer than the sleeps below, also on a fast machine
args=("${base[@]}" --max-iters=60 --eval-interval=30 --val-data=long.txt)
run 0 train "${args[@]}" --out-dir=eval.ref
for step in 0 30; do
  start "${args[@]}" --out-dir=eval$step
  if [ $step = 0 ]; then
    until [ -e eval0/metrics.jsonl ]; do sleep .02; done
    sleep .05
  else
    await_step eval30 29
    sleep .05
  fi
  kill -s TERM "$pid"
  wait "$pid"
  code=$?
  stopped 143 TERM eval$step
  check "it was within the evaluation" test "$(fields eval$step/metrics.jsonl | tail -n 1 | cut -d' ' -f1,3)" = "$step -"
  run 0 train --resume --out-dir=eval$step
  same "stopped in the evaluation of step $step" eval$step eval.ref 60
done

# --- within the evaluation of a run that has nothing left to train ---
cp -r eval.ref eval.was
listens() { grep -qE '^SigCgt:.*[4-7c-f]...$' "/proc/$pid/status"; } # to SIGTERM
whole=$EPOCHREALTIME
run 0 train --resume --out-dir=eval.ref --quiet=off
whole=$(awk -v from="$whole" -v to="$EPOCHREALTIME" 'BEGIN { print (to - from) / 2 }')
for part in 1 .9 .7 .5 .3; do # nearly all of it is that evaluation
  start --resume --out-dir=eval.ref --quiet=off
  until listens 2>/dev/null || ! kill -0 "$pid" 2>/dev/null; do :; done
  sleep "$(awk -v s="$whole" -v part=$part 'BEGIN { print s * part }')"
  kill -s TERM "$pid" 2>/dev/null
  wait "$pid"
  code=$?
  [ $code = 143 ] && break
done
stopped 143 TERM eval.ref
out_says '^nothing left to train: '
for file in last.h5 last.1.h5 best.h5 metrics.jsonl; do check "$file is as it was" cmp eval.ref/$file eval.was/$file; done

# --- samples of a run that was killed ---
args=("${base[@]}" --max-iters=60 --eval-interval=30 --sample-every=15)
run 0 train "${args[@]}" --out-dir=sample.ref
run 0 train "${args[@]}" --max-iters=30 --lr-decay-iters=60 --out-dir=sample.30
cd sample.30 || exit 1
cp samples.txt two
before=$(grep -n '^--- step 30 ---$' two | cut -d: -f1)
head -n $((before - 1)) two >one
torn=(one two)
for at in 6 17 40 $(($(wc -c <two) - $(wc -c <one) - 1)); do # in its header, behind it, in its text
  head -c $(($(wc -c <one) + at)) two >"torn$at"
  torn+=("torn$at")
done
{ cat two; printf -- '--- step 45 ---\nlater\n--- st'; } >later
{ cat two; printf -- '--- ste'; } >begun
cd ..
for how in "${torn[@]}" later begun; do
  rm -rf sample.torn
  cp -r sample.30 sample.torn
  cp "sample.30/$how" sample.torn/samples.txt
  run 0 train --resume --out-dir=sample.torn --max-iters=60
  check "$how: the same samples" cmp sample.torn/samples.txt sample.ref/samples.txt
done

# --- stopped within the last evaluation, whose loss is the best: what is found on going on is saved before it is noted ---
if [ -f "$bin/interpose.so" ]; then
  args=("${base[@]}" --max-iters=30 --eval-interval=30 --val-data=long.txt)
  run 0 train "${args[@]}" --out-dir=end.ref
  start "${args[@]}" --out-dir=end
  await_step end 29
  sleep .05
  kill -s TERM "$pid"
  wait "$pid"
  code=$?
  stopped 143 TERM end
  check "it was within the evaluation" test "$(fields end/metrics.jsonl | tail -n 1 | cut -d' ' -f1,3)" = "30 -"
  for ((k = 1; k < 9; k++)); do # killed within each save of going on, and at last not
    rm -rf twice
    cp -r end twice
    LD_PRELOAD=$bin/interpose.so LINA_FAIL=rename:$k:kill LINA_FAIL_IN=train \
      "$bin/train" --resume --out-dir=twice --quiet >out 2>err &
    wait $! 2>/dev/null
    ended=$?
    run 0 train --resume --out-dir=twice --quiet
    for which in last best; do check "killed at rename $k: the same $which.h5" cmp twice/$which.h5 end.ref/$which.h5; done
    [ $ended = 137 ] || break
  done
  check "at last it was not killed" test "$ended" = 0
  check "there were some: $k" test "$k" -gt 2
else
  skipped "kills between the saves of an evaluation that is made up for: no interpose.so"
fi

# --- SIGUSR1: save now, go on ---
args=("${base[@]}" --save-interval=1000 --max-iters=600)
start "${args[@]}" --out-dir=usr1
await_step usr1 60
check "nothing is saved yet" test ! -e usr1/last.h5
kill -s USR1 "$pid"
for _ in $(seq 6000); do
  [ -e usr1/last.h5 ] && break
  sleep .01
done
check "SIGUSR1 saves" test -s usr1/last.h5
check "and the run goes on" kill -0 "$pid"
cp usr1/last.h5 saved.h5
wait "$pid"
check "to its end" test $? = 0
run 0 train "${args[@]}" --out-dir=usr1.ref
same SIGUSR1 usr1 usr1.ref 600
run 0 train --eval-only --init-from=saved.h5 --data=t.txt

# --- killed at every system call of saving ---
args=("${tiny[@]}" --data=t.txt --max-iters=40 --eval-interval=20 --lr=3e-3 --warmup-iters=5 --quiet)
if strace -f -o /dev/null true 2>/dev/null; then
  run 0 train "${args[@]}" --out-dir=cut.ref
  for at in fallocate:3 fsync:{1..10} rename:{3,5} link:1; do
    rm -rf cut
    last="train, killed at $at"
    ASAN_OPTIONS=detect_leaks=0 strace -f -o /dev/null -e trace="${at%:*}" -e inject="${at%:*}:signal=SIGKILL:when=${at#*:}" \
      "$bin/train" "${args[@]}" --out-dir=cut >/dev/null 2>&1 &
    wait $! 2>/dev/null
    code=$?
    if [ "$code" = 0 ]; then # there are not so many of these calls
      check "not killed" each_step_once cut/metrics.jsonl 40
      continue
    fi
    # without any checkpoint the run begins anew
    if ! ls cut/*.h5 >/dev/null 2>&1; then
      run 0 train "${args[@]}" --out-dir=cut --overwrite
    else
      run 0 train --resume=auto --out-dir=cut
    fi
    same "killed at $at" cut cut.ref 40
  done
else
  skipped "kills within a save: no strace"
fi
finish
