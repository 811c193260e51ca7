#!/usr/bin/env bash
# experiments/run.sh NAME... -- the experiments of this folder, each with its results in a folder of its name:
#
#   shakespeare  8 variants, 5 seeds, the reference run    TEXT=tinyshakespeare.txt   an hour or more on two cores
#   bible        the same on the King James text            made by `bible` (Debian: bible-kjv)           likewise
#   lengths      4 variants without positions, 3 seeds, windows of 1, 4 and 16 times the block    TEXT=...
#   mqar-64-4    retrieval, 8 variants with and without a short convolution, 3 seeds, of two rates the better     2 hours
#   mqar-64-4-longer    two of them without it, for twice the steps                                          10 minutes
#   mqar-128-8   rows twice as long with twice the pairs, at the rates that mqar-64-4 chose                     2 hours
#   mqar-256-16  the same again, one seed                                                                      an hour
#
# Tiny Shakespeare is the text of Karpathy's char-rnn (1,115,394 bytes).
# Times by length are measured in the first one only: they are those of the variants, whatever the text.
# Stop it with Ctrl-C whenever you like; the same command goes on.  Finished runs are read from records/,
# so what is committed here is not run again.  JOBS=N: runs side by side.
set -euo pipefail
(($#)) || { sed -n '2,/^# so what/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 2; }
if [[ ${TEXT:-} ]]; then TEXT=$(realpath "$TEXT"); fi
bin=$(realpath "${BIN:-"$(dirname "${BASH_SOURCE[0]}")/../build/release/bin"}")
cd "$(dirname "${BASH_SOURCE[0]}")"
[[ -x $bin/compare ]] || { echo "run.sh: no compare in $bin: build it (README.md), or say where it is with BIN=" >&2 && exit 1; }
jobs=${JOBS:-1}
eight=(--attn=softmax --attn=elu1 --attn=double-softmax --attn=cosine --attn=window:w=16 --attn=taylor2 --attn=favor
    --attn=elu1/window:w=16)

both=() # each variant with and without a short convolution
for attn in "${eight[@]}"; do both+=("$attn short-conv=4" "$attn"); done
chosen=() # the same at the rates that mqar-64-4 chooses
for i in "${!both[@]}"; do
    case $i in 1 | 7 | 8 | 10 | 11) lr=1e-3 ;; *) lr=3e-3 ;; esac
    chosen+=("${both[i]} lr=$lr")
done

text() { # NAME FILE OPTION...: the reference run
    "$bin/compare" "${eight[@]}" --data "$2" --seeds 5 --jobs "$jobs" --out-dir "$1" "${@:3}"
}

mqar() { # NAME LENGTH PAIRS SEEDS STEPS OPTION...: batches of 64 rows, of 8,192 tokens at most
    "$bin/compare" --task="mqar:vocab=$((4 * $2)),length=$2,pairs=$3" --n-layer 2 --n-head 1 --n-embd 64 \
        --batch-size $(($2 > 128 ? 8192 / $2 : 64)) --max-iters "$5" --eval-interval 100 --stop-at .995 --seeds "$4" \
        --jobs "$jobs" --longest 0 --out-dir "$1" "${@:6}"
}

for name in "$@"; do
    case $name in
    shakespeare) text shakespeare "${TEXT:?TEXT=FILE names Tiny Shakespeare}" ;;
    bible)
        [[ -f kjv.txt ]] || { bible -f gen1:1-rev22:21 </dev/null >kjv.txt.new && mv kjv.txt.new kjv.txt; }
        text bible kjv.txt --longest 0
        ;;
    lengths)
        "$bin/compare" --attn=softmax --attn=elu1 --attn=double-softmax --attn=cosine --pos none \
            --data "${TEXT:?TEXT=FILE names Tiny Shakespeare}" --seeds 3 --jobs "$jobs" --longest 0 --out-dir lengths
        ;;
    mqar-64-4) mqar mqar-64-4 64 4 3 3000 --lr 1e-3,3e-3 "${both[@]}" ;;
    mqar-64-4-longer) mqar mqar-64-4-longer 64 4 3 6000 --lr 1e-3 --attn=softmax --attn=elu1 ;;
    mqar-128-8) mqar mqar-128-8 128 8 3 3000 "${chosen[@]}" ;;
    mqar-256-16) mqar mqar-256-16 256 16 1 3000 "${chosen[@]}" ;;
    *) echo "run.sh: unknown experiment '$name'; run.sh alone lists them" >&2 && exit 2 ;;
    esac
done
