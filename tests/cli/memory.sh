#!/usr/bin/env bash
# memory.sh -- RLIMIT_AS from too small to start with to enough: a program ends with 0, or with one sentence that says
# what is missing; never by a signal in our code.  What the loader and libraries do to themselves is counted apart.
# With LINA_LONG=1 ten times as many limits.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/cli/_lib.sh
. "$here/_lib.sh" "$1"
# shellcheck source=tests/cli/_inject.sh
. "$here/_inject.sh"
mkdir w && cd w || exit 1

go_on() { # PROGRAM ARG...: what that run has left is whole, and goes on to the same end without a limit
  local space=
  case $how in "ended with"* | "went on") [ ! -d run ] || no_temporaries run || wrong+=("a temporary is left") ;; esac
  [ ! -d ../start ] || [ -s run/last.h5 ] || wrong+=("last.h5 is gone")
  if [ ! -e run/last.h5 ] && [ ! -e run/best.h5 ]; then return; fi
  [[ " $* " == *" --resume"* ]] || set -- train --resume=auto --out-dir=run --quiet
  injected "" "$@"
  [ "$code$said" = 0 ] || wrong+=("resuming ends with $code: ${said:0:300}")
  [ "$(core_of run)" = "$core" ] || wrong+=("resumed, it differs")
}

sweep() { # NAME PROGRAM ARG...: limits from what a run takes downwards, until main() is not reached any more
  local name=$1 peak kib step seconds core how was
  shift
  rm -rf run
  [ -d ../start ] && cp -r ../start run
  injected "" "$@"
  check "$name without a limit" test "$code$said" = 0
  [ "$1" = train ] && core=$(core_of run)
  peak=$(sed -nE "s/^$1 peak ([0-9]+)\$/\1/p" <<<"$noted")
  step=$((peak / 60))
  [ -n "${LINA_LONG:-}" ] && step=$((peak / 600))
  for ((kib = peak + 2 * step; kib > 0; kib -= step)); do
    for seconds in 2 60; do # slow, or without an end?
      rm -rf run
      [ -d ../start ] && cp -r ../start run
      space=$kib injected "" "$@"
      [[ $code = 152 && $noted == *" began"* ]] || break
    done
    checks=$((checks + 1))
    if [[ $noted != *" began"* ]]; then # nothing of ours has run
      echo "$name|before main: code $code" >>../ends
      break
    fi
    judge "$1" ""
    [[ $result == "ended with "[2345] ]] && wrong+=("want of memory is 6")
    [[ $result == "ended with 1" && $said != *"could NOT be saved"* ]] && wrong+=("neither 6 nor a failed save")
    how=$result was="$code: ${said:0:300}"
    [ "$1" = train ] && go_on "$@"
    echo "$was" >>../said
    echo "$name|$how" >>../ends
    [ ${#wrong[@]} = 0 ] || fail "$name, $kib KiB: ${wrong[*]}: $was"
  done
}
sweep "a small model" train "${small[@]}"
sweep "a step of 60 MiB" train "${small[@]}" --n-embd=64 --n-head=2 --n-layer=4 --block-size=64 --batch-size=64 \
  --max-iters=1 --warmup-iters=0
check "it is said what is needed and what there is" grep -qE 'needs [0-9.]+ MiB and [0-9.]+ MiB are free: .*; try ' ../said
sweep "two threads" train "${small[@]}" --threads=2
rm -rf run
injected "" train "${small[@]}" --max-iters=2 --lr-decay-iters=4
cp -r run ../start
sweep "resuming" train --resume=auto --out-dir=run --max-iters=4 --quiet
cp ../start/last.h5 ../model.h5
sweep "writing" generate --checkpoint=../model.h5 --prompt=the --tokens=6 --threads=1 --quiet
cd ..
echo "limits, run, how it ended:"
sort ends | uniq -c
finish
