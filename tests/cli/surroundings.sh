#!/usr/bin/env bash
# surroundings.sh -- what a run finds around it: texts of 2^31 and 2^32 bytes, streams that do not end, closed
# streams, names with any bytes in them, checkpoints of other versions.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 20000 >t.txt
data=("${tiny[@]}" --data=t.txt --max-iters=20 --eval-interval=10 --quiet)
new=("${data[@]}" --out-dir=new)
run 0 train "${data[@]}" --tokenizer=byte --out-dir=bytes
run 0 train "${new[@]}"
fields new/metrics.jsonl >plain
cp -r new used

# --- texts of 2^31 and 2^32 bytes: zeros that take no room on the disk, and words at the end ---
# The end is the validation part, so that its loss, which is known from a text of that alone, says what was read.
tail -c 8000 t.txt >end.txt
run 0 train --eval-only --init-from=bytes/best.h5 --val-data=end.txt --data=t.txt
loss_of out >expected
for size in 2147483648 4294967296; do
  truncate -s $((size - 4000)) large # the end begins before the power of two and goes on after it
  cat end.txt >>large
  n=$((size + 4000))
  frac=$(awk -v n=$n 'BEGIN { printf "%.17g", 8000 / n }')
  cap=1000000 # KiB of memory of its own, which the file itself is not
  # shellcheck disable=SC2317
  within() { (sanitized || ulimit -d $cap; exec "$@"); }
  last="train --eval-only on $n bytes"
  check "exit code" within "$bin/train" --eval-only --init-from=bytes/best.h5 --data=large --val-frac="$frac"
  within "$bin/train" --eval-only --init-from=bytes/best.h5 --data=large --val-frac="$frac" >out 2>err
  loss_of out >a
  check "the end of $n bytes is read" cmp a expected
  last="train --dry-run on $n bytes"
  within "$bin/train" "${tiny[@]}" --tokenizer=byte --data=large --val-frac="$frac" --dry-run >out 2>err
  check "exit code" test $? = 0
  out_says "^large: $((n - 8000)) tokens to train on, 8000 to validate, vocabulary 256"
  [ -n "${LINA_LONG:-}" ] || continue
  last="train on $n bytes" # which reads them all, for their hash
  within "$bin/train" "${new[@]}" --overwrite --tokenizer=byte --data=large --val-frac="$frac" >out 2>err
  check "exit code" test $? = 0
  check "all of it" grep -q "\"corpus_bytes\": $n," new/run.json
  last="train --tokenizer=char on $n bytes"
  cap=$((1000000 + n / 1024)) # and an id of one byte for each character
  within "$bin/train" "${new[@]}" --overwrite --data=large --val-frac="$frac" >out 2>err
  check "exit code ($(tail -n 1 err))" test $? = 0
  check "each step once" each_step_once new/metrics.jsonl 20
done
rm large

# --- streams that do not end ---
if sanitized; then
  skipped "streams without an end: a sanitizer needs more memory than the limit"
else
  for how in pipe fifo; do
    last="train from a $how without an end"
    rm -rf new
    if [ $how = pipe ]; then
      (ulimit -v 1500000; yes | "$bin/train" "${new[@]}" --data=- >out 2>err)
    else
      mkfifo fifo
      (yes >fifo 2>/dev/null) &
      (ulimit -v 1500000; "$bin/train" "${new[@]}" --data=fifo >out 2>err)
    fi
    check "exit code of a $how" test $? = 6
    err_says '^train: no memory for more than [0-9]+ bytes of (standard input|fifo); store them in a file'
    check "nothing was written" test ! -e new
  done
fi
free=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)
if [ -z "${LINA_LONG:-}" ]; then
  :
elif [ "${free:-0}" -lt 18 ]; then
  skipped "the most that is read from a stream: it is half of the memory up to 8 GiB, and $free GiB are free"
else
  last="train from a stream of more than 8 GiB"
  head -c 8590000000 /dev/zero | "$bin/train" "${new[@]}" --data=- >out 2>err
  check "exit code" test $? = 3
  err_says '^train: standard input has more than 8589934592 bytes, the most that is read from a stream'
fi

# --- closed streams ---
for closed in '<&- >out' '<&- >&- 2>&-'; do
  rm -rf new
  last="train $closed"
  # shellcheck disable=SC2294
  eval '"$bin/train" "${new[@]}"' "$closed"
  check "exit code" test $? = 0
  fields new/metrics.jsonl >a
  check "the same numbers" cmp plain a
done
rm -rf new
last="train --data=- <&-"
"$bin/train" "${new[@]}" --data=- >out 2>err <&-
check "exit code" test $? = 3
err_says 'standard input: it is a character device'
check "nothing was written" test ! -e new

# --- line ends ---
sed 's/$/\r/' t.txt >crlf
run 0 train "${new[@]}" --quiet=off
vocabulary=$(grep -oE 'vocabulary [0-9]+' out | cut -d' ' -f2)
run 0 train "${new[@]}" --quiet=off --overwrite --data=crlf
out_says "vocabulary $((vocabulary + 1))\$" # they are kept

# --- names and values of any bytes: what the terminal gets is text ---
odd=$'\377\302\2332J\033[2J\342\202x' # no UTF-8, the CSI of one character, of two bytes, a cut character
shown='\?\?2J\?\[2J\?\?x'
# printable FILE: UTF-8, without control characters
printable() {
  check "$1 is UTF-8" iconv -f UTF-8 -t UTF-8 "$1"
  check_not "$1 has no control characters" grep -qE "$(printf '[\001-\010\013-\037\177]|\302[\200-\237]')" "$1"
}
for option in --data --config --resume --init-from --val-data --attn --task --n-head --lr; do
  check_not "$option of odd bytes" "$bin/train" --data=t.txt "$option=none/$odd"
  "$bin/train" --data=t.txt "$option=none/$odd" >out 2>err
  last="train $option"
  err_says "$shown"
  printable err
done
rm -rf none
run 0 train --resume --out-dir=used --max-iters=22 --quiet=off --prompt="$odd"
out_says "^changed on resuming: prompt was , is $shown\$"
out_says "prompt=$shown"
check "run.json is UTF-8" iconv -f UTF-8 -t UTF-8 used/run.json
check "and says where a byte was none" grep -qF '"prompt": "\ufffd' used/run.json
if command -v python3 >/dev/null; then check "run.json is JSON" python3 -m json.tool used/run.json; fi
run 0 train --resume --out-dir=used --max-iters=24 --quiet=off
out_says "prompt=$shown" # from the checkpoint
check "it is UTF-8" iconv -f UTF-8 -t UTF-8 out

prints() { # CODE PROGRAM ARG...: also where it succeeds
  run "$@"
  last=$(printf '%q ' "${@:2}")
  printable out
  printable err
}
cp t.txt "$odd.txt"
cp end.txt "$odd.val"
short=("${tiny[@]}" --max-iters=4 --eval-iters=1)
named=("${short[@]}" --data="$odd.txt" --val-data="$odd.val" --eval-interval=2 --save-interval=1 --keep=2 --sample-every=2 --csv
  --tensorboard --out-dir="$odd")
prints 0 train "${named[@]}" --dry-run
prints 0 train "${named[@]}"
prints 2 train "${named[@]}"
prints 0 train --resume --out-dir="$odd" --max-iters=6
prints 0 train --eval-only --resume=last --out-dir="$odd"
prints 0 train --eval-only --init-from="$odd/last.h5" --data="$odd.txt"
prints 0 train "${named[@]}" --init-from="$odd/last.h5" --overwrite
prints 0 generate --checkpoint="$odd/last.h5" --prompt=The --tokens=5
prints 0 generate --checkpoint="$odd/last.h5" --prompt=The --show-attention="$odd.h5"
check "run.json is UTF-8 for any names" iconv -f UTF-8 -t UTF-8 "$odd/run.json"
odd=$'\302\2332J\033[2J' # UTF-8, which results.json asks for
cp t.txt "$odd.txt"
for _ in made resumed; do prints 0 compare --attn=softmax "${short[@]}" --data="$odd.txt" --seeds=1 --longest=0 --out-dir="$odd"; done

# --- checkpoints of other versions, and with more behind them ---
cp used/last.h5 later.h5
printf '\002' | dd of=later.h5 bs=1 seek=8 conv=notrunc status=none
run 4 generate --checkpoint=later.h5
err_says 'later\.h5 has format 2; this program reads format 1'
mkdir hurt
cp used/metrics.jsonl later.h5 hurt
mv hurt/later.h5 hurt/last.h5
cp -r hurt hurt.was
run 4 train --resume=last --out-dir=hurt
err_says 'last\.h5 has format 2; this program reads format 1'
check "nothing changed" diff -r hurt hurt.was
cp used/best.h5 hurt/best.h5
run 0 train --resume --out-dir=hurt --quiet=off
err_says '^skipped hurt/last\.h5: .*has format 2'
out_says '^resuming from hurt/best\.h5$'
cp used/last.h5 more.h5
echo "something that was appended" >>more.h5
run 0 train --eval-only --init-from=used/last.h5 --data=t.txt
loss_of out >a
run 0 train --eval-only --init-from=more.h5 --data=t.txt
loss_of out >b
check "bytes behind a checkpoint are none of it" cmp a b

# --- what may be changed on resuming is told ---
for pair in lr:0.001:0.002 weight-decay:0.1:0.2 beta2:0.99:0.9 grad-clip:1:2; do
  IFS=: read -r name was is <<<"$pair"
  run 0 train --resume --out-dir=used --max-iters=25 --quiet=off --"$name=$is"
  out_says "^changed on resuming: $name was $was, is $is\$"
done
finish
