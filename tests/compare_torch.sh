#!/usr/bin/env bash
# Speed and memory of this program, beside PyTorch where there is a peer: tables in Markdown.
#
#   tests/compare_torch.sh [--only 1,3] [--rounds N] TEXT
#
# 1 a training step of the reference model          5 time per token of attention, 8,192 to 262,144 tokens
# 2 a step of 6 layers, 384 wide, 16 x 256 tokens   6 one thread against several
# 3 linear attention, 4,096 tokens                  7 decoding, and reading a prompt
# 4 softmax, 4,096 tokens                           8 planned memory against the measured peak
#
# The two programs run in turn, N rounds (5); figures are medians over the rounds, and ratios are of
# medians.  Needs a quiet machine, and for 1 to 4 a Python with torch (PYTHON names it; python3).
# PAUSE: seconds of rest before each (0), for a machine that is fast for a while only.
# BIN: where the programs are (build/release/bin).  VARIANTS: the linear ones.  OMP_NUM_THREADS: 2.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$root/build/release/bin}
python=${PYTHON:-python3}
read -ra linear <<<"${VARIANTS:-elu1 double-softmax cosine}"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} LC_ALL=C PYTHONDONTWRITEBYTECODE=1
threads=$OMP_NUM_THREADS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

usage() { sed -n '2,/^# BIN/s/^# \{0,1\}//p' "$0"; }
only=1,2,3,4,5,6,7,8 rounds=5 text=
while (($#)); do
  case $1 in
    --only) only=${2:?--only needs numbers} && shift ;;
    --only=*) only=${1#*=} ;;
    --rounds) rounds=${2:?--rounds needs a number} && shift ;;
    --rounds=*) rounds=${1#*=} ;;
    -h | --help) usage && exit 0 ;;
    -*) echo "compare_torch.sh: unknown option $1" >&2 && usage >&2 && exit 2 ;;
    *) text=$1 ;;
  esac
  shift
done
[[ $only =~ ^[1-8](,[1-8])*$ ]] || { echo "compare_torch.sh: --only takes 1 to 8, and is $only" >&2 && exit 2; }
[[ $rounds =~ ^[1-9][0-9]*$ ]] || { echo "compare_torch.sh: --rounds is $rounds" >&2 && exit 2; }
[[ -r $text ]] || { echo "compare_torch.sh: which text? '$text' cannot be read" >&2 && usage >&2 && exit 2; }
if [[ $only =~ [1-4] ]] && ! "$python" -c 'import torch' 2>/dev/null; then
  echo "compare_torch.sh: $python has no torch: PYTHON=... names one that has, --only 5,6,7,8 needs none" >&2
  exit 2
fi

wanted() { [[ ,$only, == *,$1,* ]]; }

# value KEY[+KEY...]: the sum of numbers of the JSON object on the last line of standard input.
value() {
  awk -v keys="$1" '{ line = $0 } END {
    n = split(keys, key, "+")
    for (i = 1; i <= n; i++) {
      if (!match(line, "\"" key[i] "\": [-+.e0-9]+")) exit 1
      sum += substr(line, RSTART + length(key[i]) + 4, RLENGTH - length(key[i]) - 4)
    }
    printf "%.9g\n", sum }'
}

# note NAME KEY... : adds the values of standard input's last line to the files NAME.KEY.
note() {
  local name=$1 line key
  shift
  line=$(tail -n 1)
  for key in "$@"; do value "$key" <<<"$line" >>"$work/$name.$key"; done
}
bench() { sleep "${PAUSE:-0}" && "$bin/bench" "$@" --json --quiet; }
torch() { sleep "${PAUSE:-0}" && "$python" "$root/tests/golden/$1" "${@:2}"; }
median() { # NAME KEY
  sort -g "$work/$1.$2" | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'
}
calc() { awk "BEGIN { printf \"$1\", $2 }"; } # FORMAT EXPRESSION[, EXPRESSION...]
progress() { if [[ -t 2 ]]; then printf '\r\033[K%s' "$*" >&2; fi; }
heading() { # TITLE, COLUMN...
  progress ''
  printf '\n%s\n\n' "$1"
  shift
  row "$@"
  printf -- '|---%.0s' "$@"
  echo '|'
}
row() { printf '| %s ' "$@" && echo '|'; }

# versus NAME: a row of medians and their ratio; the files are NAME.ours.KEY and NAME.torch.KEY.
versus() { # TITLE NAME KEY
  local theirs ours
  theirs=$(median "$2.torch" "$3") ours=$(median "$2.ours" "$3")
  row "$1" "$(calc %.1f "$theirs")" "$(calc %.1f "$ours")" "**$(calc %.2f "$theirs / $ours")**" \
    "$(calc %.0f "$(median "$2.ours" percent_of_peak)") %"
}

step_sizes() { # of section 1 or 2
  [[ $1 == 1 ]] || echo --n-layer 6 --n-head 6 --n-embd 384 --block-size 256 --batch-size 16
}
steps() { # SECTION TITLE STEPS
  local attn round sizes
  read -ra sizes <<<"$(step_sizes "$1")"
  for attn in softmax elu1; do
    for ((round = 1; round <= rounds; round++)); do
      progress "$1: $attn, round $round"
      torch train_reference.py --attn "$attn" --data "$text" --steps "$3" --no-eval ${sizes[@]+"${sizes[@]}"} |
        note "$1.$attn.torch" ms_per_step
      bench train --attn="$attn" --data "$text" --repeats "$3" ${sizes[@]+"${sizes[@]}"} |
        note "$1.$attn.ours" ms_per_step percent_of_peak
    done
  done
  heading "$2" attention 'PyTorch, ms' 'Lina, ms' 'times as fast' 'of the measured peak'
  for attn in softmax elu1; do versus "$attn" "$1.$attn" ms_per_step; done
}

attention() { # NAME VARIANT REPEATS
  local round
  for ((round = 1; round <= rounds; round++)); do
    progress "attention: $2, round $round"
    torch attention_reference.py --form "$2" --repeats "$3" | note "$1.torch" forward_ms+backward_ms
    bench attention --attn="$2" | note "$1.ours" forward_ms+backward_ms percent_of_peak peak_gflops
  done
}

machine() {
  echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $threads threads, $rounds rounds," \
    "$("$python" -c 'import torch; print("PyTorch", torch.__version__)' 2>/dev/null || echo 'no PyTorch')"
}

section_1() { steps 1 "A training step of the reference model (4 layers, 128 wide, 12 x 64 tokens)" 100; }
section_2() { steps 2 "A training step of 6 layers, 384 wide, 16 x 256 tokens" 6; }

section_3() {
  local attn
  for attn in "${linear[@]}"; do attention "3.$attn" "$attn" 5; done
  heading "Causal linear attention, forward + backward, 8 heads of 64, 4,096 tokens; PyTorch in chunks" \
    attention 'PyTorch, ms' 'Lina, ms' 'times as fast' 'of the measured peak' '14 d^2 flops at the peak, times'
  for attn in "${linear[@]}"; do
    echo "$(versus "$attn" "3.$attn" forward_ms+backward_ms)" \
      "$(calc %.2f "$(median "3.$attn.ours" forward_ms+backward_ms) * 1e6 * $(median "3.$attn.ours" peak_gflops) / (14 * 64 * 64 * 4096 * 8)") |"
  done
}

section_4() {
  attention 4.softmax softmax 2
  heading "Causal softmax, forward + backward, 8 heads of 64, 4,096 tokens; PyTorch with the whole matrix" \
    attention 'PyTorch, ms' 'Lina, ms' 'times as fast' 'of the measured peak'
  versus softmax 4.softmax forward_ms+backward_ms
}

section_5() {
  local attn n round lengths=(8192 16384 32768 65536 131072 262144) cells
  for ((round = 1; round <= rounds; round++)); do
    for attn in "${linear[@]}"; do
      for n in "${lengths[@]}"; do
        progress "5: $attn, $n tokens, round $round"
        bench attention --attn="$attn" --n "$n" --d 32 --heads 4 | note "5.$attn.$n" forward_ms+backward_ms
      done
    done
  done
  heading "Microseconds a token, forward + backward, 4 heads of 32, by the length of the text" \
    attention "${lengths[@]}" 'largest / smallest' 'slope of log time over log length'
  for attn in "${linear[@]}"; do
    mapfile -t cells < <(for n in "${lengths[@]}"; do
      echo "$n $(median "5.$attn.$n" forward_ms+backward_ms)"
    done | awk '{ us = 1e3 * $2 / $1; printf "%.3f\n", us; if (NR == 1 || us < low) low = us; if (us > high) high = us
        x = log($1); y = log($2); sx += x; sy += y; sxx += x * x; sxy += x * y }
      END { printf "%.3f\n%.3f\n", high / low, (NR * sxy - sx * sy) / (NR * sxx - sx * sx) }')
    row "$attn" "${cells[@]}"
  done
}

section_6() {
  local attn round t title name
  local names=("step, 12 x 64" "step, 1 x 16,384" "attention, 1 x 16,384")
  for attn in softmax elu1; do
    for ((round = 1; round <= rounds; round++)); do
      for t in 1 "$threads"; do
        progress "6: $attn, $t threads, round $round"
        bench train --attn="$attn" --threads "$t" | note "6.$attn.0.$t" ms_per_step
        bench train --attn="$attn" --threads "$t" --batch-size 1 --block-size 16384 --repeats 3 | note "6.$attn.1.$t" ms_per_step
        bench attention --attn="$attn" --threads "$t" --n 16384 --d 32 --heads 4 --repeats 3 |
          note "6.$attn.2.$t" forward_ms+backward_ms
      done
    done
  done
  heading "One thread and $threads, milliseconds (4 layers, 4 heads of 32)" work '1 thread' "$threads threads" 'times as fast'
  for attn in softmax elu1; do
    for title in 0 1 2; do
      name=6.$attn.$title
      local key=ms_per_step
      [[ $title == 2 ]] && key=forward_ms+backward_ms
      row "$attn, ${names[$title]}" "$(calc %.1f "$(median "$name.1" $key)")" "$(calc %.1f "$(median "$name.$threads" $key)")" \
        "$(calc %.2f "$(median "$name.1" $key) / $(median "$name.$threads" $key)")"
    done
  done
}

section_7() {
  local attn round far
  for ((round = 1; round <= rounds; round++)); do
    for attn in softmax "${linear[@]}"; do
      far=100000
      [[ $attn == softmax ]] && far=10000
      progress "7: $attn, round $round"
      bench decode --attn="$attn" --positions 10,4096,$far >"$work/decode"
      sed -n 1p "$work/decode" | note "7.$attn.near" ms_per_token state_bytes
      sed -n 2p "$work/decode" | note "7.$attn.prompt" ms_per_token prompt_ms_per_token
      sed -n 3p "$work/decode" | note "7.$attn.far" ms_per_token state_bytes
    done
  done
  heading "Decoding with the reference model, no positions: milliseconds a token, and bytes of state" attention \
    'at 10' 'far' 'position' 'far / at 10' 'state at 10' 'state far' 'a token of a prompt of 4,096' 'times as fast as decoding it'
  for attn in softmax "${linear[@]}"; do
    local near distant prompt
    near=$(median "7.$attn.near" ms_per_token) distant=$(median "7.$attn.far" ms_per_token)
    prompt=$(median "7.$attn.prompt" prompt_ms_per_token)
    far=100,000
    [[ $attn == softmax ]] && far=10,000
    row "$attn" "$(calc %.4f "$near")" "$(calc %.4f "$distant")" "$far" "$(calc %.3f "$distant / $near")" \
      "$(median "7.$attn.near" state_bytes)" "$(median "7.$attn.far" state_bytes)" "$(calc %.4f "$prompt")" \
      "$(calc %.1f "$(median "7.$attn.prompt" ms_per_token) / $prompt")"
  done
}

section_8() {
  local attn i sizes=("" "$(step_sizes 2)" "--batch-size 1 --block-size 16384") options planned start peak
  local names=("12 x 64, 4 layers, 128 wide" "16 x 256, 6 layers, 384 wide" "1 x 16,384, 4 layers, 128 wide")
  heading "Memory of a training step, MiB" step planned 'at start' 'measured peak' 'peak - planned - start' 'of the peak'
  for attn in softmax elu1; do
    for i in 0 1 2; do
      progress "8: $attn, ${names[$i]}"
      read -ra options <<<"${sizes[$i]}"
      bench train --attn="$attn" --repeats 1 ${options[@]+"${options[@]}"} >"$work/memory"
      planned=$(value planned_bytes <"$work/memory") start=$(value start_bytes <"$work/memory")
      peak=$(value peak_bytes <"$work/memory") || { echo "(this system does not tell the peak)" && return; }
      progress ''
      row "$attn, ${names[$i]}" "$(calc %.1f "$planned / 2^20")" "$(calc %.1f "$start / 2^20")" "$(calc %.1f "$peak / 2^20")" \
        "$(calc %.1f "($peak - $planned - $start) / 2^20")" "$(calc %.1f "100 * ($peak - $planned - $start) / $peak") %"
    done
  done
}

machine
for section in 1 2 3 4 5 6 7 8; do
  if wanted $section; then section_$section; fi
done
