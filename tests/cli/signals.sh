#!/usr/bin/env bash
# signals.sh -- signals wherever they come: within a step, twice, while sampling, from a terminal that goes away.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 20000 >t.txt
args=("${tiny[@]}" --data=t.txt --max-iters=1000000 --eval-interval=100 --quiet=off)

# until_ COMMAND...: waits until it succeeds, ten minutes at most.
until_() {
  local end=$((SECONDS + 600))
  until "$@" 2>/dev/null; do
    [ "$SECONDS" -lt $end ] || return 1
    sleep .01
  done
}
# shellcheck disable=SC2317
delivered() { grep -q '^ShdPnd:[[:space:]]*0*$' "/proc/$pid/status"; } # no signal waits for the process
ended() { # PID: as `wait`, and $code; a process that does not end within ten minutes is killed
  until_ not_running "$1" || kill -s KILL "$1" 2>/dev/null
  wait "$1" 2>/dev/null
  code=$?
}
# shellcheck disable=SC2317
not_running() { ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status"; }

# outlasts SIGNAL DIR ARG...: a run that gets the signal and goes on to its end, at step $steps.  One that was faster
# than the signal is done again with more steps.
outlasts() {
  local in_time=no
  for steps in 2000 4000 8000 16000 32000; do
    rm -rf "$2"
    start "${args[@]}" --max-iters="$steps" --out-dir="$2" "${@:3}"
    await_step "$2" 20 && kill -s "$1" "$pid" 2>/dev/null && ! not_running "$pid" && in_time=yes
    ended "$pid"
    [ $in_time = no ] || break
  done
  check "SIG$1 is in time" test $in_time = yes
  check "it goes on to its end" test "$code" = 0
  check "each step once" each_step_once "$2/metrics.jsonl" "$steps"
}

# --- one signal: saved within the step that it came in ---
for pair in INT:130 TERM:143 HUP:129; do
  signal=${pair%:*}
  start "${args[@]}" --out-dir="$signal"
  await_step "$signal" 20
  kill -s STOP "$pid"
  written=$(wc -l <"$signal/metrics.jsonl")
  kill -s "$signal" "$pid"
  kill -s CONT "$pid"
  ended "$pid"
  check "exit code of SIG$signal" test "$code" = "${pair#*:}"
  check "one more step at most" test $(($(wc -l <"$signal/metrics.jsonl") - written)) -le 1
  out_says "^stopped by SIG$signal after step $(($(wc -l <"$signal/metrics.jsonl") - 1)); go on with: train --resume --out-dir $signal\$"
  run 0 train --eval-only --resume=last --out-dir="$signal"
done

# --- under nohup the terminal may go ---
trap '' HUP
outlasts HUP nohup
trap - HUP

# --- a second signal: at once, and no file is touched ---
# A step of so many batches is not over when the second one comes, however fast the machine is.
for pair in INT,INT:130 TERM,INT:130 INT,TERM:143; do
  rm -rf twice twice.was
  start "${tiny[@]}" --data=t.txt --grad-accum=1000000 --max-iters=3 --out-dir=twice
  check "the first evaluation is saved" until_ test -e twice/best.h5
  sleep .1 # it is within the step now; if not, the first signal comes before it
  cp -r twice twice.was
  signals=${pair%:*}
  kill -s "${signals%,*}" "$pid"
  check "the first signal has come" until_ delivered
  check "the step goes on" kill -0 "$pid"
  kill -s "${signals#*,}" "$pid"
  ended "$pid"
  check "exit code of SIG${signals/,/ and SIG}" test "$code" = "${pair#*:}"
  check "no file was touched" diff -r twice twice.was
  check_not "nothing was saved" grep -q '^stopped by' out
done

# --- SIGUSR1 saves once ---
outlasts USR1 once --save-interval=1000000 --keep=9
check "last.h5 of the end, and one of the signal" test "$(echo once/last*.h5)" = "once/last.1.h5 once/last.h5"

# --- while a sample is written: most of the time of this run ---
writes=("${tiny[@]}" --n-layer=4 --batch-size=1 --data=t.txt --max-iters=24 --eval-interval=12 --sample-every=1 --quiet=off)
run 0 train "${writes[@]}" --out-dir=sample.ref
# Characters of the last sample, and the end of its line: 200 of them, or 0 to 199 if it was stopped.
# shellcheck disable=SC2317
cut_short() { test "$(awk '/^--- step [0-9]+ ---$/ { n = 0; next } { n += length($0) + 1 } END { print n - 1 }' "$1/samples.txt")" -lt 200; }
for signal in INT TERM; do
  for try in 1 2 3 4 5 6 7 8; do
    rm -rf sample
    stop_at $signal sample 4 "${writes[@]}"
    cut_short sample && break
  done
  check "a sample was cut short" cut_short sample
  check "exit code" test "$code" = "$([ $signal = INT ] && echo 130 || echo 143)"
  out_says "^stopped by SIG$signal after step $(($(wc -l <sample/metrics.jsonl) - 1)); "
  check "no temporary is left" no_temporaries sample
  run 0 train --resume --out-dir=sample
  fields sample/metrics.jsonl >a
  fields sample.ref/metrics.jsonl >b
  check "the same numbers" cmp a b
  check "the same weights" same_weights sample/last.h5 sample.ref/last.h5
  check "the same samples" cmp sample/samples.txt sample.ref/samples.txt
done
finish
