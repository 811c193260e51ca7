#!/usr/bin/env bash
# soak.sh -- a long run and a long text take no more memory in the end than at their beginning.  With LINA_LONG=1
# six million tokens of training and 100,000 that are written, else 250,000 and 5,000.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"
if sanitized; then
  echo "skipped: a sanitizer keeps what was freed"
  exit 77
fi

if [ -n "${LINA_LONG:-}" ]; then
  steps=12000 written=100000 every=200
else
  steps=500 written=5000 every=10
fi
text 60000 >t.txt
args=("${tiny[@]}" --batch-size=16 --data=t.txt --max-iters="$steps" --eval-interval="$every" --sample-every="$every" --keep=3
  --csv --tensorboard --prompt=The --quiet --seed=3)

# Bytes that are in memory at the lines from FROM on: how much more the most of them is than the first.
growth() { # FILE FROM
  awk -v from="$2" 'match($0, /"rss_bytes": [0-9]+/) && NR > from {
    now = substr($0, RSTART + 13, RLENGTH - 13) + 0
    if (first == "") first = now
    if (now > most) most = now } END { print (first == "" ? "none" : most - first) }' "$1"
}

# --- training: evaluations, checkpoints and samples go on all the time ---
for spec in "elu1 --pos=none" "softmax --dropout=.1 --grad-accum=2 --optim=sgd"; do
  read -ra more <<<"$spec"
  # shellcheck disable=SC2034 # for fail
  last="train --attn=$spec"
  rm -rf run
  timeout 3000 "$bin/train" "${args[@]}" --attn="${more[0]}" "${more[@]:1}" --out-dir=run >out 2>err </dev/null
  check "$spec: exit code ($(tail -n 1 err))" test $? = 0
  check "$spec: each step once" each_step_once run/metrics.jsonl $steps
  check "$spec: samples" test "$(grep -c '^--- step ' run/samples.txt)" = $((steps / every))
  # warm: the first evaluations, checkpoints and samples are over
  warm=$((steps / 10))
  grown=$(growth run/metrics.jsonl $warm)
  tokens=$((steps * 16 * 32))
  [[ $spec == *--grad-accum=2* ]] && tokens=$((2 * tokens))
  check "$spec: $grown bytes more after step $warm" test "$grown" -le 1048576
  echo "$spec: $tokens tokens in $steps steps, $grown bytes more after step $warm"
  cp run/last.h5 "${more[0]}.h5"
done

# --- writing: a state of constant size, and one that is rebuilt ---
for model in elu1 softmax; do
  for tokens in $((written / 10)) $written; do
    began=$(date +%s%N)
    peak generate --checkpoint=$model.h5 --prompt=The --tokens="$tokens" --quiet
    took=$((($(date +%s%N) - began) / 1000000))
    check "$model: $tokens tokens" test "$(wc -c <out)" = $((3 + tokens + 1))
    echo "$model: $tokens tokens, $high KiB at most, $((1000 * took / tokens)) microseconds each"
    [ "$tokens" = "$written" ] || few=$high
  done
  check "$model: $few KiB for a tenth, $high for all" test $((high - few)) -lt 1024
done
finish
