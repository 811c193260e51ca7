#!/usr/bin/env bash
# hostile.sh -- checkpoints with a right hash that HDF5 does not survive: the programs do, with exit code 4
# and a sentence, and --resume=auto goes on from the one before.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

# shellcheck disable=SC2034 # _lib.sh reads it
patience=1800 # a reader that loops is ended by seconds of computing, and others compute as well
text 20000 >t.txt
args=("${tiny[@]}" --data=t.txt --max-iters=20 --eval-interval=10 --save-interval=10 --keep=2 --quiet)
run 0 train "${args[@]}" --out-dir=good
rm good/best.h5

# run, with a limit on the seconds that a process computes, which is then also the reader's.
within() { # SECONDS|usual CODE PROGRAM ARG...
  if [ "$1" != usual ]; then ulimit -S -t "$1"; fi
  run "${@:2}"
  ulimit -S -t unlimited
}

# What HDF5 1.10 does not survive, a later one may refuse by itself.
says_why() { err_says "^$1${3:-bad}/last\.h5.*($2.* hostile|no attribute config)"; } # BEFORE HOW [DIR]

how() { # KIND SECONDS|usual HOW
  rm -rf bad
  cp -r good bad
  check "$1: made" "$bin/hostile" "$1" bad/last.h5
  within "$2" 4 train --resume=last --out-dir=bad
  says_why '(train: reading |train: )' "$3"
  check "one message" test "$(wc -l <err)" = 1
  within "$2" 4 generate --checkpoint=bad/last.h5 --tokens=5
  says_why '(generate: reading |generate: )' "$3"
  within "$2" 0 train --resume=auto --out-dir=bad --quiet
  says_why 'skipped bad/last\.h5: (reading )?' "$3"
  check "$1: from the checkpoint before, to the end" each_step_once bad/metrics.jsonl 20
  check "$1: with the same weights" same_weights bad/last.h5 good/last.h5
}

seconds=3
sanitized && seconds=20
how crash usual 'ended the reader'
cp -r good loops
check "made" "$bin/hostile" loop loops/last.h5
how loop $seconds "after $seconds seconds of computing"
if [ -n "${LINA_LONG:-}" ]; then # without a limit of their own
  run 4 train --resume=last --out-dir=loops
  says_why '(train: reading |train: )' 'after 60 seconds of computing' loops
fi

cp good/last.h5 bad/init.h5
check "made" "$bin/hostile" crash bad/init.h5
run 4 train "${args[@]}" --init-from=bad/init.h5 --out-dir=new
err_says 'bad/init\.h5.*(hostile|no attribute config)'
check_not "nothing was written" test -e new
finish
