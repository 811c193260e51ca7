#!/usr/bin/env bash
# experiments/run.sh NAME... -- the experiments of this folder, each with its results in a folder of its name:
#
#   shakespeare  8 variants, 5 seeds, the reference run    TEXT=tinyshakespeare.txt   an hour or more on two cores
#   bible        the same on the King James text            made by `bible` (Debian: bible-kjv)           likewise
#   lengths      4 variants without positions, 3 seeds, windows of 1, 4 and 16 times the block    TEXT=...
#   mqar-64-4    retrieval, 8 variants with and without a short convolution, 3 seeds                 hours
#   mqar-128-8   the same, twice as long with twice the pairs                                           hours
#   mqar-256-16  the same again, one seed                                                               hours
#
# Stop it with Ctrl-C whenever you like; the same command goes on.  Finished runs are read from records/,
# so what is committed here is not run again.  JOBS=N: runs side by side.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
bin=${BIN:-../build/release/bin}
jobs=${JOBS:-1}
eight=(--attn=softmax --attn=elu1 --attn=double-softmax --attn=cosine --attn=window:w=16 --attn=taylor2 --attn=favor
    --attn=elu1/window:w=16)

both=() # each variant with and without a short convolution
for attn in "${eight[@]}"; do both+=("$attn short-conv=4" "$attn"); done

text() { # NAME FILE: the reference run
    "$bin/compare" "${eight[@]}" --data "$2" --seeds 5 --jobs "$jobs" --out-dir "$1"
}

mqar() { # LENGTH PAIRS SEEDS
    "$bin/compare" "${both[@]}" --task="mqar:vocab=$((4 * $1)),length=$1,pairs=$2" --n-layer 2 --n-head 1 --n-embd 64 \
        --batch-size 64 --max-iters 3000 --eval-interval 100 --stop-at .995 --lr 1e-3,3e-3 --seeds "$3" --jobs "$jobs" \
        --longest 4096 --out-dir "mqar-$1-$2"
}

(($#)) || { sed -n '2,/^# so what/s/^# \{0,1\}//p' run.sh && exit 2; }
for name in "$@"; do
    case $name in
    shakespeare) text shakespeare "${TEXT:?TEXT=FILE names Tiny Shakespeare}" ;;
    bible)
        [[ -f kjv.txt ]] || { bible -f gen1:1-rev22:21 </dev/null >kjv.txt.new && mv kjv.txt.new kjv.txt; }
        text bible kjv.txt
        ;;
    lengths)
        "$bin/compare" --attn=softmax --attn=elu1 --attn=double-softmax --attn=cosine --pos none \
            --data "${TEXT:?TEXT=FILE names Tiny Shakespeare}" --seeds 3 --jobs "$jobs" --longest 0 --out-dir lengths
        ;;
    mqar-64-4) mqar 64 4 3 ;;
    mqar-128-8) mqar 128 8 3 ;;
    mqar-256-16) mqar 256 16 1 ;;
    *) echo "run.sh: unknown experiment '$name'; run.sh alone lists them" >&2 && exit 2 ;;
    esac
done
