# shellcheck shell=bash disable=SC2034,SC2154 # bin is _lib.sh's, and others read what is set here
# _inject.sh -- a run of train in which calls fail (tests/interpose.c), and what must hold of it whichever they are.
# Source it after _lib.sh.
#
# A run is in the folder `run` of the current folder, so that two workers do not meet; the text is ../t.txt.
interpose=$bin/interpose.so
if [ ! -f "$interpose" ]; then
  echo "skipped: no $interpose (it needs glibc, and a build without sanitizers)"
  exit 77
fi
text 1200 >t.txt
small=(--n-layer=1 --n-embd=8 --n-head=1 --block-size=8 --batch-size=1 --data=../t.txt --max-iters=4 --eval-interval=4
  --save-interval=2 --keep=2 --lr=3e-3 --warmup-iters=1 --csv --tensorboard --sample-every=3 --threads=1 --out-dir=run --quiet)

# injected PLAN PROGRAM ARG...: its exit code is in $code, what it said in $said, the interposer's lines in $noted.
# $within: the name of the process in which calls fail, if it is not PROGRAM: PROGRAM-child.
# $space: so many KiB of address space; the processor time is limited then too, to $seconds, since OpenBLAS asks for
# ever where its first buffer does not fit.
injected() {
  rm -f log
  (
    if [ -n "${space:-}" ]; then ulimit -v "$space" -S -t "$seconds"; fi
    LD_PRELOAD=$interpose LINA_FAIL=$1 LINA_FAIL_IN=${within:-$2} LINA_FAIL_LOG=log exec timeout 120 "$bin/$2" "${@:3}"
  ) >out 2>err </dev/null &
  wait $! 2>/dev/null
  code=$?
  said=$(<err)
  noted=
  [ -f log ] && noted=$(<log)
}

results_of() { # FOLDER: its metrics, without what the clock says
  numbers "$1" 2>&1
  cut -d, -f1-8 "$1/metrics.csv" 2>&1
}
state_of() { # FOLDER: what an undisturbed run leaves each time
  (cd "$1" && cksum -- *.h5 samples.txt 2>&1 && stat -c '%s bytes of events' events.out.tfevents.* 2>&1)
  results_of "$1"
}
core_of() { # FOLDER: what a run that was resumed has in common with one that was not
  (cd "$1" && cksum last.h5 best.h5 2>&1)
  results_of "$1"
}
# PROCESS KIND LINES: how many calls there were, at its first end if there are several of the name
number_of() { sed -nE "/^$1 calls/ { s/.* $2=([0-9]+).*/\1/p; q }" <<<"$3"; }

declare -A whole=() # checksum and size of each checkpoint that a run has ever had
learn() { # FOLDER: its checkpoints are good
  local sum size name
  while read -r sum size name; do whole[$sum $size]=$name; done < <(cd "$1" && cksum -- *.h5 2>/dev/null)
}

damaged() { # STATE: prints the checkpoints that are none of those
  local sum size name
  while read -r sum size name; do
    [[ $name != *.h5 || -n ${whole[$sum $size]:-} ]] || echo "$name"
  done <<<"$1"
}

# killer PROGRAM: who ended it (of its children it is not asked): that called exit(), or of the objects on its stack
# the innermost that is not the C library.
killer() {
  local object who what rest objects=()
  while read -r who what _ rest; do
    case "$who $what" in "$1 died" | "$1 exit") read -ra objects <<<"$rest" ;; esac
  done <<<"$noted"
  for object in "${objects[@]}"; do
    case $object in
    interpose.so | libc.so* | ld-linux*) ;;
    *) echo "${object%%.so*}" && return ;;
    esac
  done
}

# judge PROGRAM PLAN: how a run ended, into $result; what is wrong with that, into the array $wrong.
judge() {
  local killer
  killer=$(killer "$1")
  wrong=()
  case $code:$killer in
  *:libhdf5* | *:libgomp* | *:libopenblas*) result="ended by $killer" ;;
  *:lib*) # at exit, in a library that found the heap as HDF5 had left it
    result="ended after libhdf5"
    [[ $'\n'$noted == *$'\n'"$1 failed malloc "*" libhdf5"* ]] || wrong+=("died in $killer")
    ;;
  0:)
    result="went on"
    ;;
  143:*) # the second signal ends it at once
    result="ended by SIGTERM"
    [[ $(<out) == "stopped by SIGTERM after step "* ]] && result="stopped by SIGTERM"
    [[ $2 == *:term && ($2 == *[+-]* || $result == stopped*) ]] || wrong+=("ended by a signal")
    ;;
  [12346]:)
    result="ended with $code"
    local line messages=0
    while read -r line; do [[ $line == "$1: "* ]] && messages=$((messages + 1)); done <<<"$said"
    [ $messages = 1 ] || wrong+=("code $code with $messages messages")
    ;;
  137:)
    result=killed
    [[ $2 == *:kill ]] || wrong+=("killed by another")
    ;;
  *)
    result="died in ${killer:-?}"
    wrong+=("code $code")
    ;;
  esac
  [ -z "$2" ] || [[ $noted == *" failed "* ]] || wrong+=("there is no such call")
}
