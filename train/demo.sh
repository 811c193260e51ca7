#!/usr/bin/env bash
# train/demo.sh [--fresh]: from nothing to a trained model in less than five minutes on two cores.
# It sets up, builds, writes the King James Bible from Debian's package `bible-kjv` into train/bible.txt
# (4.4 MB), trains a small model with linear attention on it in runs/demo, and shows what it learnt.
# Run again: an interrupted run continues, a finished one is shown.  --fresh: train anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin=build/release/bin
text=train/bible.txt
run=runs/demo
log=$run.log # what train printed
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} # spinning threads are several times slower on a busy machine

fresh=no
case ${1:-} in
--fresh) fresh=yes ;;
"") ;;
-h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' train/demo.sh && exit 0 ;;
*) echo "demo.sh: unknown option '$1'; there is only --fresh" >&2 && exit 2 ;;
esac

# shellcheck source=train/setup.sh
. train/setup.sh

if [[ -f $text ]]; then lina_setup; else lina_setup demo; fi

if [[ ! -f build/release/build.ninja && ! -f build/release/Makefile ]] ||
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" build/release/CMakeCache.txt; then
    lina_configure release
fi
lina_build release train generate

if [[ ! -f $text ]]; then
    echo "== Writing $text"
    bible -f gen1:1-rev22:21 </dev/null >$text.new
    mv $text.new $text
fi
size=$(($(wc -c <$text)))
if ((size < 4300000 || size > 4500000)); then
    echo "$text has $size bytes, and should have about 4.4 million. Remove it and start again." >&2
    exit 1
fi

# Loss of the bigram model, nats per character: counts of the first nine tenths plus one, scored on the last tenth.
bigram() {
    LC_ALL=C awk -v size="$size" '
    BEGIN { cut = int(size * 0.9) }
    {
        line = $0 "\n"
        n = length(line)
        for (i = 1; i <= n; i++) {
            c = substr(line, i, 1)
            if (at++ < cut) { count[last c]++; seen[last]++ }
            else valid[last c]++
            letters[c]
            last = c
        }
    }
    END {
        for (c in letters) vocabulary++
        for (pair in valid) loss -= valid[pair] * log((count[pair] + 1) / (seen[substr(pair, 1, 1)] + vocabulary))
        printf "%.4f\n", loss / (size - cut)
    }' $text
}

finished() { [[ -f $run/best.h5 && -f $log ]] && grep -q '^done:' $log; }

train() { # OPTION...: what it prints is kept; an interrupt reaches train, which saves
    local status=0
    mkdir -p runs
    trap : INT
    $bin/train "$@" | tee -i -a $log || status=$?
    trap - INT
    if ((status)); then
        echo "train ended with $status. ./train/demo.sh continues a run that was saved; --fresh starts anew." >&2
        exit $status
    fi
}

if [[ $fresh == yes ]]; then rm -rf $run $log; fi
if finished; then
    echo "== $run is already trained (--fresh trains it anew)"
elif [[ -f $run/last.h5 ]]; then
    echo "== Continuing $run"
    train --resume=auto --out-dir $run
else
    echo "== Training"
    rm -f $log
    train --attn=elu1 --data $text --out-dir $run --overwrite --eval-interval 500 --log-interval 100
fi

echo
echo "== What it writes"
status=0
$bin/generate --checkpoint $run/best.h5 --prompt "Ps151:1 " --tokens 300 2>$run.notes || status=$?
echo
cat $run.notes >&2 # not in the middle of the sample
if ((status)); then exit $status; fi

echo
echo "== What it learnt"
grep '^done:' $log | tail -n 1
# best.h5 is the step with the lowest validation loss, also if the run was continued after the demo
best=$(sed -n 's/.*"val_loss": *\([0-9][0-9.eE+-]*\).*/\1/p' $run/metrics.jsonl | LC_ALL=C sort -g | head -n 1)
awk -v model="$best" -v bigram="$(bigram)" 'BEGIN {
    printf "Validation loss in nats per character: %.4f; the bigram model of the same text: %.4f.\n", model, bigram }'

cat <<EOF

== Where to go from here, in $PWD
$bin/generate --checkpoint $run/best.h5 --prompt "Ge1:1 " --tokens 500
$bin/train --resume=auto --out-dir $run --max-iters 4000      # goes on with this run
EOF
