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

# --- undisturbed runs, and the checkpoints that they ever have ---
mkdir ref && cd ref || exit 1
injected "" train "${small[@]}"
check "the undisturbed run" test "$code$said" = 0
calls_new=$noted
want=$(state_of run) core=$(core_of run)
syncs=$(number_of sync "$calls_new")
check "it saves often" test "$syncs" -ge 8
for ((k = 1; k <= syncs; k++)); do
  rm -rf run
  injected "sync:$k:kill" train "${small[@]}"
  check "killed at sync $k" test "$code" = 137
  learn run
  [ "$k" -gt $((syncs / 2)) ] && [ ! -e ../stopped ] && [ -e run/last.h5 ] && cp -r run ../stopped
done
rm -rf run
cp -r ../stopped run
rm -f ../stopped/*tmp*
injected "" train "${resume[@]}"
check "resumed" test "$code$said" = 0
check "the same state" test "$(core_of run)" = "$core"
calls_resume=$noted want_resume=$(state_of run)
cd ..

# --- a case ---
one() { # SCENARIO PLAN: a line of the result
  local expect=$want
  rm -rf run
  if [ "$1" = new ]; then
    injected "$2" train "${small[@]}"
  else
    cp -r ../stopped run
    injected "$2" train "${resume[@]}"
    expect=$want_resume
  fi
  judge train "$2"
  local bad= same=no state=
  [ -d run ] && state=$(state_of run) bad=$(damaged "$state")
  [ -n "$bad" ] && wrong+=("damaged: $bad")
  [ "$state" = "$expect" ] && same=yes
  case $2:$noted in # stdio takes a signal for an error
  *:EINTR:*interpose.so*) ;;
  *:EINTR:* | *:short:* | *:EOPNOTSUPP:*) [ "$code$said$same" = 0yes ] || wrong+=("not as if nothing had been") ;;
  esac
  [ "$code$said$same" = 0no ] && wrong+=("silent")
  [ "$1" = resume ] && [ ! -e run/last.h5 ] && wrong+=("last.h5 is gone")
  case $result in
  "went on" | "ended with"*) [ -z "$(compgen -G 'run/*tmp*')" ] || wrong+=("a temporary is left") ;;
  esac
  local was="$code: ${said:0:300}" how=$result
  if [ "$code$same" != 0yes ]; then
    if [ -n "$(compgen -G 'run/*.h5')" ]; then
      injected "" train "${resume[@]}"
    else
      injected "" train "${small[@]}" --overwrite
    fi
    [ "$code" = 0 ] || wrong+=("resuming ends with $code: ${said:0:300}")
    [ "$(core_of run)" = "$core" ] || wrong+=("resumed, it differs")
  fi
  [ ${#wrong[@]} = 0 ] && echo "good|$1 ${2%%:*} ${2##*:}|$how" && return
  printf 'BAD|%s %s|%s|' "$1" "$2" "$how"
  printf '%s; ' "${wrong[@]}"
  echo "$was" | tr '\n' ' '
  echo
}

# --- the sweeps ---
sweep() { # SCENARIO KIND HOW EVERY [SUFFIX]: each EVERYth call in the short version; + as SUFFIX: and all after it
  local calls=$calls_new n k every=$4
  [ "$1" = resume ] && calls=$calls_resume
  n=$(number_of "$2" "$calls")
  [ -n "${LINA_LONG:-}" ] && every=1
  for ((k = 1 + (every > 1); k <= n; k += every)); do echo "$1 $2:$k${5:-}:$3"; done
}
{
  for scenario in new resume; do
    sweep $scenario write ENOSPC 4
    sweep $scenario write ENOSPC 4 +
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
    sweep $scenario cut EIO 1
    sweep $scenario cut EINTR 1
    sweep $scenario rename EIO 1
    sweep $scenario rename EPERM 3 +
    sweep $scenario rename kill 3
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
  for scenario in new resume; do sweep $scenario malloc ENOMEM 199; done
  for scenario in new resume; do sweep $scenario malloc ENOMEM 499 +; done
} >cases
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
