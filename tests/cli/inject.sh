#!/usr/bin/env bash
# inject.sh -- one call of a run fails, or each from it on, call after call: no damaged checkpoint, no signal in our
# code, nothing silent, and the run can be resumed and ends with the bits of the undisturbed one.
# With LINA_LONG=1 every call of every kind; else all of a save's and some of the others.
[ -w /dev/shm ] && export TMPDIR=/dev/shm # thousands of syncs
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/cli/_lib.sh
. "$here/_lib.sh" "$1"
# shellcheck source=tests/cli/_inject.sh
. "$here/_inject.sh"

resume=(--resume=auto --out-dir=run --quiet)

declare -A calls # of each kind, by scenario

# --- undisturbed runs, and the checkpoints that they ever have ---
mkdir ref && cd ref || exit 1
injected "" train "${small[@]}"
check "the undisturbed run" test "$code$said" = 0
calls[new]=$noted
want=$(state_of run) core=$(core_of run)
syncs=$(number_of train sync "${calls[new]}")
check "it saves often" test "$syncs" -ge 8
for ((k = 1; k <= syncs; k++)); do
  rm -rf run
  injected "sync:$k:kill" train "${small[@]}"
  check "killed at sync $k" test "$code" = 137
  learn run
  [ "$k" -gt $((syncs / 2)) ] && [ ! -e ../stopped ] && [ -e run/last.h5 ] && cp -r run ../stopped
done
rm -rf run
rm -f ../stopped/*tmp*
printf '{"step": 3, "lo' >>../stopped/metrics.jsonl # which is cut off
cp -r ../stopped run
injected "" train "${resume[@]}"
check "resumed" test "$code$said" = 0
check "the same state" test "$(core_of run)" = "$core"
calls[resume]=$noted want_resume=$(state_of run)
check "checkpoints are read by a process of its own" test "$(number_of train-child malloc "$noted")" -gt 100
cp run/best.h5 ../model.h5
rm -rf run
cp -r ../stopped run
injected "" train --resume=best --out-dir=run --quiet
check "gone back" test "$code" = 0
check "to the same state" test "$(core_of run)" = "$core"
calls[back]=$noted want_back=$(state_of run)
check "what was later is there" test "$(echo run/aside.*.h5)" = run/aside.2.h5
writing=(--checkpoint=../model.h5 --prompt=the --tokens=6 --threads=1 --quiet)
showing=(--checkpoint=../model.h5 --prompt=the --show-attention=shown.h5 --threads=1 --quiet)
injected "" generate "${writing[@]}"
check "writing" test "$code$said" = 0
calls[write]=$noted written=$(cksum <out)
injected "" generate "${showing[@]}"
check "showing attention" test "$code$said" = 0
calls[show]=$noted shown=$(cksum <shown.h5)
injected "" compare --attn=softmax "${small[@]:0:8}" --seeds=1 --longest=0 --out-dir=many --quiet
check "comparing" test "$code" = 0
calls[compare]=$noted
cd ..

# --- a checkpoint that could not be saved is one at the next save ---
mkdir again && cd again || exit 1
told=
for ((k = 1; k <= $(number_of train space "${calls[new]}"); k++)); do
  rm -rf run
  injected "space:$k:ENOSPC" train "${small[@]}"
  [[ $said == *"saving run/last.h5"* ]] && told=$said && break
done
check "said once: $told" test "$(grep -c . <<<"$told")" = 1
check "with the reason" grep -q '^warning: saving run/last\.h5 .* failed .*: No space left on device; .*; training goes on$' <<<"$told"
check "exit code" test "$code" = 0
check "saved in the end" test "$(core_of run)" = "$core"
cd ..

# --- a case: a line of the result ---
verdict() { # SCENARIO PLAN HOW WAS
  [ ${#wrong[@]} = 0 ] && echo "good|$1 ${2%%:*} ${2##*:}|$3" && return
  printf 'BAD|%s %s|%s|' "$1" "$2" "$3"
  printf '%s; ' "${wrong[@]}"
  tr '\n' ' ' <<<"$4"
  echo
}

generates() { # SCENARIO PLAN: the text is whole or something is said; a file is the old one or the new one
  local args=("${writing[@]}") result="" old
  [ "$1" = show ] && args=("${showing[@]}")
  echo old >shown.h5
  old=$(cksum <shown.h5)
  injected "$2" generate "${args[@]}"
  judge generate "$2"
  if [ "$1" = write ]; then
    [ "$code$said" != 0 ] || [ "$(cksum <out)" = "$written" ] || wrong+=("silent")
  elif [ "$(cksum <shown.h5)" = "$old" ]; then
    [ "$code$said" != 0 ] || wrong+=("silent")
  else
    [ "$(cksum <shown.h5)" = "$shown" ] || wrong+=("a damaged file")
  fi
  [ -z "$(compgen -G '*tmp*')" ] || [[ $result == "ended "[ba]* ]] || wrong+=("a temporary is left")
  rm -f -- *tmp*
  verdict "$1" "$2" "$result" "$code: ${said:0:300}"
}

compares() { # SCENARIO PLAN: compare itself, not its trainings; the same command goes on where it ended
  local args=(--attn=softmax "${small[@]:0:8}" --seeds=1 --longest=0 --out-dir=many --quiet) result=""
  rm -rf many
  injected "$2" compare "${args[@]}"
  judge compare "$2"
  local was="$code: ${said:0:300}" how=$result
  injected "" compare "${args[@]}"
  [ "$code" = 0 ] || wrong+=("once more it ends with $code: ${said:0:300}")
  [ -s many/results.json ] && [ -z "$(find many -name '*tmp*')" ] || wrong+=("no results, or a temporary is left")
  verdict "$1" "$2" "$how" "$was"
}

declare -A reason=([ENOSPC]="No space left on device" [EIO]="Input/output error" [EDQUOT]="Disk quota exceeded"
  [EPERM]="Operation not permitted" [EINTR]="" [EOPNOTSUPP]="")
trains() { # SCENARIO PLAN
  local expect=$want
  rm -rf run
  if [ "$1" = new ]; then
    injected "$2" train "${small[@]}"
  else
    local within=
    [ "$1" = reader ] && within=train-child
    cp -r ../stopped run
    expect=$want_resume
    if [ "$1" = back ]; then
      injected "$2" train --resume=best --out-dir=run --quiet
      expect=$want_back
      said=$(grep -v '^note: run/last\.h5 is of step ' <<<"$said")
    else
      injected "$2" train "${resume[@]}"
    fi
    within=
  fi
  judge train "$2"
  local bad="" same=no state="" file
  [ -d run ] && state=$(state_of run) bad=$(damaged "$state")
  for file in $bad; do # of a step at which only a signal saves?
    [[ $2 == *:term ]] && "$bin/train" --eval-only --init-from="run/$file" --data=../t.txt --threads=1 --quiet >/dev/null 2>&1 ||
      wrong+=("damaged: $file")
  done
  [ "$state" = "$expect" ] && same=yes
  case $2:$noted in # stdio takes a signal for an error
  *:EINTR:*interpose.so*) ;;
  *:EINTR:* | *:short:* | *:EOPNOTSUPP:*) [ "$code$said$same" = 0yes ] || wrong+=("not as if nothing had been") ;;
  esac
  [ "$code$said$same" = 0no ] && wrong+=("silent")
  [[ $1 != new && $1 != back ]] && [ ! -e run/last.h5 ] && wrong+=("last.h5 is gone")
  case $1:$2 in # what an error may lead to, and what is said of it
  reader:*:kill) [[ $code = 6 && $said != *skipped* ]] || wrong+=("a reader was killed: $code") ;;
  new:malloc:* | resume:malloc:* | back:malloc:*) [[ $result == "ended with "[235] ]] && wrong+=("want of memory is 6") ;;
  *:write:* | *:sync:* | *:space:* | *:rename:*)
    [[ $result == "ended with "[2-6] ]] && wrong+=("a file that cannot be written is 1")
    [[ -z $said || ${2##*:} != E* || $said == *"${reason[${2##*:}]}"* ]] || wrong+=("no reason is given")
    ;;
  esac
  [[ $2 == *-*:ENOSPC && $code = 0 && $(core_of run) != "$core" ]] && wrong+=("there was room again, and it differs")
  case $result in
  "went on" | "ended with"* | stopped*) [ -z "$(compgen -G 'run/*tmp*')" ] || wrong+=("a temporary is left") ;;
  esac
  local was="$code: ${said:0:300}" how=$result all=$said
  if [ "$code$same" != 0yes ]; then
    if [ -n "$(compgen -G 'run/*.h5')" ]; then
      injected "" train "${resume[@]}"
    else
      injected "" train "${small[@]}" --overwrite
    fi
    [ "$code" = 0 ] || wrong+=("resuming ends with $code: ${said:0:300}")
    [ "$(core_of run)" = "$core" ] || wrong+=("resumed, it differs")
  fi
  cmp -s run/samples.txt ../ref/run/samples.txt || [[ $all == *sample* ]] || wrong+=("other samples")
  verdict "$1" "$2" "$how" "$was"
}

one() { # SCENARIO PLAN
  case $1 in
  write | show) generates "$@" ;;
  compare) compares "$@" ;;
  *) trains "$@" ;;
  esac
}

# --- the sweeps ---
# Where the calls of a scenario are made, if not by train: reader is the process that reads the checkpoints of resume.
declare -A process=([write]=generate [show]=generate [compare]=compare [reader]=train-child)
calls[reader]=${calls[resume]}
# sweep SCENARIO KIND HOW EVERY [MORE]: each EVERYth call in the short version.  MORE: + for all after it too, or how many.
sweep() {
  local n k every=$4 until
  n=$(number_of "${process[$1]:-train}" "$2" "${calls[$1]}")
  if [ "${n:-0}" = 0 ]; then
    echo "$1 $2 $3" >>empty
    return
  fi
  [ -n "${LINA_LONG:-}" ] && every=1
  for ((k = 1 + (every > 1); k <= n; k += every)); do
    until=${5:-}
    [[ $until == [0-9]* ]] && until=-$((k + until))
    echo "$1 $2:$k$until:$3"
  done
}
: >empty
{
  for scenario in new resume; do
    sweep $scenario write ENOSPC 4
    sweep $scenario write ENOSPC 4 +
    sweep $scenario write ENOSPC 9 4 # a disk that is full for a while
    sweep $scenario space ENOSPC 4 1
    sweep $scenario write EIO 7
    sweep $scenario write EDQUOT 9 +
    sweep $scenario write EINTR 9
    sweep $scenario write short 9
    sweep $scenario write kill 9
    sweep $scenario sync EIO 2
    sweep $scenario sync EIO 5 +
    sweep $scenario sync EINTR 7
    sweep $scenario sync kill 7
    sweep $scenario space ENOSPC 2
    sweep $scenario space ENOSPC 3 +
    sweep $scenario space EINTR 4
    sweep $scenario space EOPNOTSUPP 4 +
    sweep $scenario rename EIO 1
    sweep $scenario rename EPERM 3 +
    sweep $scenario rename kill 3
    sweep $scenario sync term 1
    sweep $scenario sync term 2 1 # the second one within the save
    sweep $scenario rename term 1
    sweep $scenario write term 7
    sweep $scenario close EIO 7
    sweep $scenario close EIO 11 +
    sweep $scenario close EINTR 7
    sweep $scenario open EMFILE 5
    sweep $scenario open EMFILE 11 +
    sweep $scenario open EIO 13
    sweep $scenario read EIO 7
    sweep $scenario read EINTR 11
    sweep $scenario read short 11
    sweep $scenario mmap ENOMEM 1
    sweep $scenario mmap ENODEV 1
  done
  sweep resume cut EIO 1
  sweep resume cut EINTR 1
  sweep reader malloc ENOMEM 97
  sweep reader malloc ENOMEM 199 +
  sweep reader malloc kill 499
  sweep reader open EMFILE 1
  sweep back rename EIO 1
  sweep back rename kill 1
  sweep back rename term 1
  sweep back sync kill 7
  sweep back write ENOSPC 9 +
  sweep back open EMFILE 5
  sweep back malloc ENOMEM 299
  for scenario in write show; do
    sweep $scenario read EIO 3
    sweep $scenario open EMFILE 5
    sweep $scenario malloc ENOMEM 397
  done
  sweep show write ENOSPC 1
  sweep show rename EIO 1
  sweep show sync EIO 1
  sweep show space ENOSPC 1
  sweep compare write ENOSPC 11
  sweep compare sync EIO 7
  sweep compare rename EIO 5
  for scenario in new resume; do sweep $scenario malloc ENOMEM 199; done
  for scenario in new resume; do sweep $scenario malloc ENOMEM 499 +; done
} >cases
check "each sweep has cases: $(tr '\n' ';' <empty)" test ! -s empty
work_off() { # WORKER: every second case, in a folder of its own
  local scenario plan
  mkdir "w$1" && cd "w$1" || return
  while read -r scenario plan; do one "$scenario" "$plan"; done < <(awk -v me="$1" 'NR % 2 == me' ../cases)
}
for worker in 0 1; do work_off $worker >"result.$worker" & done
wait
cat result.? >result
checks=$((checks + $(wc -l <cases)))
check "every case has a result" test "$(wc -l <result)" = "$(wc -l <cases)"
while read -r line; do fail "$line"; done < <(grep '^BAD|' result)
echo "cases, what failed, how it ended:"
cut -d'|' -f1-3 result | sed -E 's/^BAD\|([a-z]+ [a-z]+):[0-9+-]+:/BAD|\1 /' | sort | uniq -c
finish
