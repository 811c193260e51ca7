#!/usr/bin/env bash
# generate.sh -- text from checkpoints: the same again, streaming, prompts, signals.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 30000 >t.txt
printf 'Grüße, 世界 und €! %.0s' $(seq 40) >utf8.txt
args=("${tiny[@]}" --max-iters=60 --eval-interval=60 --lr=3e-3 --warmup-iters=10 --quiet)
make() { run 0 train "${args[@]}" --data=t.txt --out-dir="$1" "${@:2}"; } # DIR ARG...
make stream --attn=elu1 --pos=none
make rope --attn=softmax --pos=rope
make learned
for attn in double-softmax cosine none; do make "$attn" --attn="$attn" --pos=none; done
run 0 train "${args[@]}" --data=utf8.txt --tokenizer=byte --out-dir=byte
run 0 train "${args[@]}" --data=utf8.txt --out-dir=utf8

gen() { # MODEL FILE ARG...: the text of --prompt=The goes to FILE
  local file=$2
  run 0 generate --checkpoint="$1/best.h5" --prompt=The "${@:3}"
  cp out "$file"
}
# shellcheck disable=SC2317
length() { test "$(wc -c <"$1")" = "$2"; }

# --- the same again ---
for model in stream rope learned double-softmax cosine none; do
  gen $model a --tokens=60 --seed=1
  [ $model = learned ] || err_empty
  check "$model: prompt, 60 tokens, new line" length a 64
  check "$model: the prompt is first" grep -qz '^The' a
  gen $model b --tokens=60 --seed=1
  check "$model: the same seed" cmp a b
  gen $model b --tokens=60 --seed=1 --threads=1
  check "$model: one thread" cmp a b
  gen $model b --tokens=60 --seed=2
  check_not "$model: another seed" cmp a b
  gen $model greedy --tokens=25 --temperature=0
  gen $model b --tokens=25 --temperature=0 --seed=9
  check "$model: greedy has no seed" cmp greedy b
  gen $model b --tokens=25 --top-k=1
  check "$model: top-k 1 is greedy" cmp greedy b
  gen $model b --tokens=25 --top-p=0.000001
  check "$model: a small top-p is greedy" cmp greedy b
  gen $model b --tokens=12 --temperature=0
  check "$model: fewer tokens are the beginning" test "$(cat b)" = "$(head -c 15 greedy)"
  # what was written, as the prompt, goes on in the same way
  run 0 generate --checkpoint=$model/best.h5 --prompt="$(head -c 16 greedy)" --tokens=12 --temperature=0
  check "$model: going on from its own text" cmp out greedy
done
gen stream a --tokens=400 --top-k=0 --top-p=1 --temperature=1
gen stream b --tokens=400 --top-k=5 --temperature=1
check_not "top-k has an effect" cmp a b
gen stream b --tokens=400 --top-k=0 --top-p=.5 --temperature=1
check_not "top-p has an effect" cmp a b
gen stream b --tokens=400 --temperature=0.1 --top-k=0
check_not "temperature has an effect" cmp a b

# --- no next token ---
make mlm --objective=mlm
refused 4 'mlm/best\.h5: .*no next token: it fills in hidden tokens' generate --checkpoint=mlm/best.h5
check "no text" test ! -s out

# --- prompts ---
gen stream a --tokens=0
check "no tokens: the prompt only" test "$(od -An -c a | tr -d ' ')" = 'The\n'
run 0 generate --checkpoint=stream/best.h5 --tokens=20
check "no prompt: the tokens only" length out 21
run 0 generate --checkpoint=stream/best.h5
check "500 by default" length out 501
prompt=$(head -c 300 t.txt)
for model in stream rope learned none; do
  run 0 generate --checkpoint=$model/best.h5 --prompt="$prompt" --tokens=20 --temperature=0
  check "$model: a prompt longer than block-size" length out 321
  check "$model: it is first" test "$(head -c 300 out)" = "$prompt"
  cp out a
  run 0 generate --checkpoint=$model/best.h5 --prompt="$prompt" --tokens=20 --temperature=0
  check "$model: the same again" cmp out a
done

# --- bytes and characters ---
printf 'Grüße \377\n\n' >a
run 0 generate --checkpoint=byte/best.h5 --prompt=$'Gr\303\274\303\237e \377\n' --tokens=0
check "bytes go through as they are" cmp out a
run 0 generate --checkpoint=byte/best.h5 --tokens=100
check "100 bytes" length out 101
run 0 generate --checkpoint=utf8/best.h5 --prompt='Grüße' --tokens=100 --temperature=1
check "whole characters" iconv -f UTF-8 -t UTF-8 out
check "100 of them" test "$(iconv -f UTF-8 -t UTF-32LE out | wc -c)" = $((4 * 106))

# --- beyond block-size ---
gen rope a --tokens=200
check "rope: 200 tokens" length a 204
err_empty
gen stream a --tokens=200
err_empty
gen learned a --tokens=300
check "learned: 300 tokens" length a 304
check "the note, once" test "$(grep -c '^note: .*reads 32 tokens at a time.*rebuilt' err)" = 1
check "and nothing else" test "$(wc -l <err)" = 1
gen learned b --tokens=300 --quiet
err_empty
check "--quiet is the same text" cmp a b
gen learned b --tokens=20
err_empty

# --- memory does not grow with the length ---
sanitized && skipped "memory: a sanitizer keeps what was freed"
for model in stream double-softmax cosine none; do
  sanitized && break
  peak generate --checkpoint=$model/best.h5 --tokens=200
  few=$high
  peak generate --checkpoint=$model/best.h5 --tokens=2000
  check "2000 tokens" length out 2001
  check "memory: $few KiB for 200 tokens, $high for 2000" test $((high - few)) -lt 1024 -a "$few" -gt 1000
done

# --- signals, and readers that go away ---
for pair in INT:130 TERM:143; do
  : >out
  "$bin/generate" --checkpoint=stream/best.h5 --tokens=1000000000 >out 2>err &
  pid=$!
  for _ in $(seq 500); do
    [ "$(wc -c <out)" -gt 100 ] && break
    sleep .01
  done
  check "text comes as it is made" test "$(wc -c <out)" -gt 100
  kill -s "${pair%:*}" $pid
  wait $pid
  check "exit code of SIG${pair%:*}" test $? = "${pair#*:}"
done
last="generate | head"
timeout 20 "$bin/generate" --checkpoint=stream/best.h5 --tokens=1000000000 2>err | head -c 10 >a
code=${PIPESTATUS[0]}
check "it ends when nobody reads" length a 10
check "which is no failure" test "$code" = 0
err_empty
timeout 20 "$bin/generate" --checkpoint=stream/best.h5 --tokens=1000000000 >/dev/full 2>err
check "it ends with 1 when nothing can be written" test $? = 1
err_says '^generate: standard output could not be written.*a part of it is missing$'
"$bin/generate" --checkpoint=stream/best.h5 --tokens=5 >/dev/full 2>err
check "a short text too" test $? = 1
err_says '^generate: standard output could not be written'
"$bin/train" --list-attn 2>/dev/null >/dev/full
check "and lists" test $? = 1
for option in -h --help --help-all --version; do
  run 0 generate "$option"
  check "$option prints" test -s out
done
finish
