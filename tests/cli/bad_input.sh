#!/usr/bin/env bash
# bad_input.sh -- whatever is wrong: the exit code, a message that helps, and nothing lost or half written.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 20000 >t.txt
text 20000 2 >other.txt
data=("${tiny[@]}" --data=t.txt --max-iters=20 --eval-interval=10 --quiet)
new=("${data[@]}" --out-dir=new)
on() { refused "$1" "$2" train "${tiny[@]}" --max-iters=20 --quiet --out-dir=new "${@:3}"; } # CODE PATTERN ARG...

# --- texts ---
: >empty
printf 'abcdefghijk%.0s' 1 2 3 >t33
head -c 32 t33 >t32
head -c 100 t.txt >t100
on 3 'empty is empty: .*0 bytes.*--block-size \+ 1' --data=empty
on 3 't32 gives 32 training tokens.*needs at least 33' --data=t32 --val-frac=0
on 3 't33 gives 29 training tokens of its 33.*smaller --val-frac' --data=t33
run 0 train "${new[@]}" --data=t33 --val-frac=0
check "block-size + 1 tokens train" each_step_once new/metrics.jsonl 20
on 3 't100 gives 10 validation tokens.*smallest --val-frac that works is 0\.33; --val-frac 0' --data=t100
on 3 't100 gives 32 validation tokens' --data=t100 --val-frac=0.32
run 0 train "${new[@]}" --data=t100 --val-frac=0.33
on 3 'empty is empty' --data=t.txt --val-data=empty
head -c 32 t.txt >v32
on 3 'v32 has 32 tokens.*needs at least 33' --data=t.txt --val-data=v32
on 3 'cannot read missing\.txt: No such file' --data=missing.txt
on 3 'cannot read missing/x: No such file' --data=missing/x
on 3 'cannot read \.: Is a directory' --data=.
on 3 '/dev/zero.*device' --data=/dev/zero
: >in
on 3 'standard input is empty' --data=-
rm in
on 3 'standard input: .*device' --data=-
printf 'good text \377\376 bad' >bad
cat t.txt bad >bad2
on 3 'bad is not valid UTF-8.*offset 10 \(first of them 0xFF\).*--tokenizer=byte' --data=bad
on 3 "bad2 is not valid UTF-8.*offset $(($(wc -c <t.txt) + 10)) " --data=bad2
run 0 train "${new[@]}" --data=bad2 --tokenizer=byte
for form in '\300\200' '\355\240\200' '\364\220\200\200' '\342\202' '\200'; do # overlong, surrogate, too high, cut, stray
  { cat t.txt; printf '%b' "${form//\\/\\0}"; } >form
  on 3 "form is not valid UTF-8.*offset $(wc -c <t.txt) " --data=form
done
{ printf '\357\273\277'; cat t.txt; } >bom
sed 's/$/\r/' t.txt >crlf
rm -rf new
run 0 train "${new[@]}"
fields new/metrics.jsonl >plain
run 0 train "${new[@]}" --overwrite --data=bom
err_says '^note: .*(BOM|byte order mark)'
fields new/metrics.jsonl >a
check "a BOM is not part of the text" cmp plain a
run 0 train "${new[@]}" --overwrite --data=crlf
err_says '^note: .*(CRLF|CR LF)'
run 0 train "${new[@]}" --overwrite
err_empty
for form in 'FF\\xFE' 'FE\\xFF'; do
  { printf '%b' "\\x${form//\\\\/\\}"; sed 's/./&\x00/g' t.txt | tr '\n' '\0'; } >utf16
  on 3 'utf16 is UTF-16.*iconv -f UTF-16' --data=utf16
done
mkfifo fifo
cat t.txt >fifo &
rm -rf new
run 0 train "${new[@]}" --data=fifo
wait
fields new/metrics.jsonl >a
check "a FIFO is the same text" cmp plain a

# --- options ---
use() { refused 2 "$1" train "${new[@]}" "${@:2}"; } # PATTERN ARG...
use 'unknown option "--att": did you mean --attn\?' --att=softmax
use 'unknown option "--batchsize": did you mean --batch-size\?' --batchsize 3
use 'unknown attention variant "sofmax": did you mean softmax\?' --attn=sofmax
use '"doublesoftmax": did you mean double-softmax\?' --attn=doublesoftmax
use 'key of --attn "chnk": did you mean chunk\?' --attn=softmax:chnk=3
use 'chunk in --attn must be .*"-1"' --attn=softmax:chunk=-1
use 'chunk in --attn must be .*""' --attn=softmax:chunk
use '"adam": did you mean adamw\?' --optim=adam
use '"cosin": did you mean cosine\?' --schedule=cosin
use '"mml": did you mean mlm\?' --objective=mml
use '--sample-every writes the next token.*--objective mlm has none' --objective=mlm --sample-every=5
use '"rop": did you mean rope\?' --pos=rop
use '"bites": did you mean byte\?' --tokenizer=bites
use '"shakespear-cpu": did you mean shakespeare-cpu\?' --preset=shakespear-cpu
use '--n-head 3, and is 128: 126 or 129 would do' --n-embd=128 --n-head=3
use '--n-head 64, and is 32: 64 would do' --n-head=64
use 'rope needs heads of even size' --pos=rope --n-embd=33 --n-head=3
use '--min-lr must not be above --lr 1e-05' --lr=1e-5
for value in 0 -1 1001 99999999999999999999999; do use "--n-layer must be from 1 to 1000, and is $value" --n-layer=$value; done
for value in 1e3 1.5 0x10 abc '' ' 3' 3x nan inf '3,5' ٣; do use "--n-layer must be a whole number.*\"$value\"" --n-layer="$value"; done
for value in nan -nan inf abc '' '0,001' 1e; do use "--lr must be a number.*\"$value\"" --lr="$value"; done
for value in -1 101 1e999; do use "--lr must be from 0 to 100, and is $value" --lr=$value; done
use '--dropout must be from 0 to 0\.999, and is 1' --dropout=1
use '--val-frac must be from 0 to 0\.9, and is 1' --val-frac=1
use '--batch-size must be from 1' --batch-size=0
use '--max-iters must be from 0' --max-iters=-1
use '--seed must be from 0 to 9007199254740991' --seed=9007199254740992
use '--n-layer needs a value' --n-layer
use '--quiet must be on or off.*"maybe"' --quiet=maybe
use 'unexpected argument "extra"' extra
use 'only one can be given' --resume --init-from=x
use 'only one can be given' --resume --overwrite
use 'only one can be given' --val-data=other.txt --val-frac=.2
use '--eval-only needs a model' --eval-only
refused 2 '--data is missing' train "${tiny[@]}" --out-dir=new
printf 'n-layer = 2\nn-lyer = 3\n' >c.conf
use 'c\.conf.*2.*n-lyer.*n-layer' --config=c.conf
printf 'lr = fast\n' >c.conf
use 'c\.conf.*1.*lr' --config=c.conf
check_not "no such config file" "$bin/train" "${new[@]}" --config=missing.conf
check "nothing was written" test ! -e new

# --- too large: refused before anything is allocated ---
# In training no variant has a matrix of T x T; what shows one refuses it too (show_attention.sh).
ulimit -S -t 60 # seconds of processor time for a program: to fill what does not fit would take more
refused 6 'parameters need .* are free' train "${new[@]}" --n-embd=65536 --n-layer=1000
text 300000 >long.txt
enormous=("${new[@]}" --data=long.txt --block-size=200000 --val-frac=0 --batch-size=4096 --n-head=32)
refused 6 'needs [0-9.]+ MiB and [0-9.]+ MiB are free: .*, the step [0-9.]+, .*; try --recompute, or a smaller --batch-size' \
  train "${enormous[@]}"
refused 6 'needs? [0-9.]+ MiB and [0-9.]+ MiB are free.*try ' train "${new[@]}" --batch-size=1048576 --n-layer=100 --n-embd=4096
if ! sanitized && /usr/bin/time -f %M -o most true 2>/dev/null; then
  for what in --n-head=3 --n-head=32; do # refused by a look at the options; with its text, by the plan
    /usr/bin/time -f %M -o most "$bin/train" "${enormous[@]}" $what >out 2>err </dev/null
    most+=($(tail -n 1 most))
  done
  check "refused with ${most[1]} KiB in memory at most, where options alone take ${most[0]}" test $((most[1] - most[0])) -lt 16384
else
  skipped "what a refused run has in memory at most: no time(1), or a sanitizer"
fi
ulimit -S -t unlimited

# --- folders ---
run 0 train "${data[@]}" --out-dir=used
cp -r used used.was
run 2 train "${data[@]}" --out-dir=used
err_says 'used is not empty \(it has .*\): .*--resume.*--overwrite'
check "the folder in use is as it was" diff -r used used.was
mkdir mine
echo precious >mine/thesis.txt
run 2 train "${data[@]}" --out-dir=mine
err_says 'mine is not empty \(it has thesis.txt\)'
check "nothing was added" test "$(ls mine)" = thesis.txt
run 0 train "${data[@]}" --out-dir=mine --overwrite
check "--overwrite leaves other files" grep -q precious mine/thesis.txt
cp t.txt t.was
run 1 train "${data[@]}" --out-dir=t.txt
err_says 'cannot make the folder t\.txt: it is a file'
run 1 train "${data[@]}" --out-dir=t.txt/run
err_says 'cannot make the folder t\.txt/run'
check "the file is as it was" cmp t.txt t.was

# As a user who is not root, for whom permissions hold.
as_user=()
if [ "$(id -u)" = 0 ]; then as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
if "${as_user[@]}" "$bin/train" --version >/dev/null 2>&1; then
  cp t.txt secret.txt
  chmod 0 secret.txt
  timeout 60 "${as_user[@]}" "$bin/train" "${new[@]}" --data=secret.txt >out 2>err
  check "an unreadable text: exit code 3" test $? = 3
  err_says 'cannot read secret\.txt: Permission denied'
  mkdir locked
  chmod 555 locked
  timeout 60 "${as_user[@]}" "$bin/train" "${data[@]}" --out-dir=locked/run >out 2>err
  check "a folder that cannot be made: exit code 1" test $? = 1
  err_says 'cannot make the folder locked/run: Permission denied'
  timeout 60 "${as_user[@]}" "$bin/train" "${data[@]}" --out-dir=locked >out 2>err
  check "a folder that cannot be written: exit code 1" test $? = 1
  err_says 'locked/.*: Permission denied'
else
  skipped "permissions: no user but root can run the programs"
fi

# --- checkpoints ---
resume() { # CODE PATTERN ARG...: resuming "used" fails and leaves the folder as it was
  run "$1" train --out-dir=used "${@:3}"
  err_says "$2"
  check "the folder is as it was" diff -r used used.was
}
refused 4 'no checkpoint.* in new' train "${new[@]}" --resume
refused 4 'no checkpoint.* in new' train "${new[@]}" --resume=auto
refused 4 'cannot read new/last.h5: No such file' train "${new[@]}" --resume=last
refused 4 'cannot read gone\.h5: No such file' train --resume=gone.h5
resume 3 "text of $(wc -c <t.txt) bytes with hash [0-9a-f]{16}, and other.txt has $(wc -c <other.txt) bytes and hash [0-9a-f]{16}" --resume --data=other.txt --max-iters=40
resume 2 '--n-layer is 2 in the checkpoint and cannot become 3' --resume --n-layer=3
resume 2 '--attn is softmax in the checkpoint and cannot become elu1' --resume --attn=elu1
resume 2 '--tokenizer is char .* become byte' --resume --tokenizer=byte
resume 2 '--batch-size is 4 .* become 5' --resume --batch-size=5
resume 2 '--optim is adamw .* become sgd' --resume --optim=sgd
resume 2 'standard input cannot be read again' --resume --data=-
resume 4 'cannot read .*missing\.h5: No such file' --resume=used/missing.h5
mv t.txt moved.txt
resume 3 'cannot read t\.txt: No such file' --resume --max-iters=40
mv moved.txt t.txt

damaged() { # NAME PATTERN: the file "broken" is no checkpoint; told by everything that reads one
  check "$1" test -f broken
  run 4 generate --checkpoint=broken
  err_says "$2"
  check "no text" test ! -s out
  refused 4 "$2" train "${new[@]}" --init-from=broken --eval-only
  rm -rf hurt
  cp -r used hurt
  cp broken hurt/last.h5
  cp hurt/metrics.jsonl metrics.was
  run 4 train --resume=last --out-dir=hurt --max-iters=30
  err_says "$2"
  check "$1: it stays" cmp broken hurt/last.h5
  check "$1: so do the metrics" cmp metrics.was hurt/metrics.jsonl
}
size=$(wc -c <used/last.h5)
flip() { # OFFSET: one bit of it
  cp used/last.h5 broken
  local byte
  byte=$(od -An -tu1 -j "$1" -N 1 broken | tr -d ' ')
  printf '%b' "$(printf '\\0%03o' $((byte ^ 16)))" | dd of=broken bs=1 seek="$1" conv=notrunc status=none
}
for at in 30 513 2000 $((size / 2)) $((size - 1)); do
  flip $at
  check_not "a bit is flipped" cmp broken used/last.h5
  damaged "bit flipped at $at" '(broken|last\.h5) is damaged'
done
flip 0
run 4 generate --checkpoint=broken
err_says 'broken is not a checkpoint: its first 8 bytes are not those of one'
refused 4 'broken cannot be read, or was not written by this program' train "${new[@]}" --init-from=broken --eval-only
flip 8
damaged "its format" 'has format [0-9]+; this program reads format 1'
flip 18
damaged "its length" 'is truncated or damaged: it has [0-9]+ bytes after its first 512, and they say that there are [0-9]+'
for at in 600 $((size / 2)) $((size - 1)); do
  head -c $at used/last.h5 >broken
  damaged "cut at $at" 'truncated'
done

free=$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo) # GiB
cp used/last.h5 huge.h5
if [ "${free:-99}" -lt 60 ] && truncate -s 64424509952 huge.h5 2>/dev/null; then # 60 GiB, of which nearly all are a hole
  printf '\0\376\377\377\016\0\0\0' | dd of=huge.h5 bs=1 seek=16 conv=notrunc status=none
  run 6 generate --checkpoint=huge.h5
  err_says '^generate: no memory for the 64424509440 bytes of huge\.h5: [0-9]+ are free$'
  rm -rf hurt
  cp -r used hurt
  ln -f huge.h5 hurt/last.h5
  run 6 train --resume --out-dir=hurt
  err_says '^train: no memory for the 64424509440 bytes of hurt/last\.h5: '
  check_not "no other is taken" grep -q '^skipped' err
else
  skipped "a checkpoint larger than the memory: $free GiB are free, or no file may have 60"
fi
rm -f huge.h5

# --resume=auto takes the one before, and says so; the end is the same.
flip $((size / 2))
mv used/best.h5 best.h5
for good in auto ''; do
  rm -rf hurt
  cp -r used hurt
  cp broken hurt/last.h5
  run 0 train --resume${good:+=$good} --out-dir=hurt
  err_says '^skipped hurt/last\.h5: '
  out_says '^resuming from hurt/last\.1\.h5$'
  check "each step once" each_step_once hurt/metrics.jsonl 20
  fields hurt/metrics.jsonl >a
  fields used/metrics.jsonl >b
  check "the same numbers" cmp a b
  check "the same weights" same_weights hurt/last.h5 used/last.h5
done
mv best.h5 used/best.h5

# Files that are not ours.
foreign() { # FILE PATTERN
  run 4 generate --checkpoint="$1"
  err_says "^generate: .*$2"
}
foreign t.txt 't\.txt is not a checkpoint: its first 8 bytes'
foreign empty 'empty is not a checkpoint, or is truncated: it has 0 bytes'
foreign /dev/null 'cannot read /dev/null: it is a device'
foreign . 'cannot read \.: it is a directory'
foreign missing.h5 'cannot read missing\.h5: No such file'
for file in t.txt empty /dev/null . missing.h5; do
  refused 4 '--trust-file|No such file' train "${new[@]}" --init-from=$file
done
run 4 generate --checkpoint=used
err_says 'used: it is a directory'
for file in t.txt empty; do refused 4 "$file" train "${new[@]}" --init-from=$file --trust-file; done
run 0 train "${data[@]}" --objective=mlm --out-dir=mlm
refused 2 '--objective is mlm in the checkpoint and cannot become causal: its weights depend' \
  train "${new[@]}" --init-from=mlm/last.h5 --objective=causal
refused 2 '--objective mlm has none' train --resume --out-dir=mlm --sample-every=5
tail -c +513 used/last.h5 >foreign.h5 # what stands behind our block is plain HDF5
refused 4 'foreign\.h5.*hash.*--trust-file' train "${new[@]}" --init-from=foreign.h5
rm -rf new
run 0 train "${new[@]}" --init-from=foreign.h5 --trust-file
check "--trust-file: its weights" test "$(val_loss new/metrics.jsonl 0)" = "$(val_loss used/metrics.jsonl 20)"
refused 4 'foreign\.h5.*shape.*\(.*32\).*64' train "${new[@]}" --n-embd=64 --init-from=foreign.h5 --trust-file
if [ -n "$python_h5py" ]; then
  "$python_h5py" -c 'import h5py
with h5py.File("foreign2.h5", "w") as f: f["x"] = [1.0, 2.0]'
  refused 4 'foreign2\.h5.*--trust-file' train "${new[@]}" --init-from=foreign2.h5
  refused 4 'foreign2\.h5' train "${new[@]}" --init-from=foreign2.h5 --trust-file
else
  skipped "a file of h5py: no python3 with h5py"
fi

# --- generate ---
ask() { run "$1" generate --checkpoint=used/best.h5 "${@:3}" && err_says "$2" && check "no text" test ! -s out; }
ask 3 'the prompt has the character "é" \(U\+00E9\) at position 4' --prompt='The é'
ask 3 'the prompt has the character U\+0007 at position 0' --prompt=$'\a'
ask 3 'the prompt is not valid UTF-8.*offset 1 ' --prompt=$'T\377'
ask 2 '--temperature must be from 0 to 1000, and is -1' --temperature=-1
ask 2 '--temperature must be a number.*"nan"' --temperature=nan
ask 2 '--top-p must be from 0 to 1, and is 2' --top-p=2
ask 2 '--top-k must be from 0' --top-k=-1
ask 2 '--tokens must be from 0' --tokens=-1
ask 2 'did you mean --temperature\?' --temperatur=1
run 2 generate
err_says '--checkpoint is missing'

# --- an output that nobody reads ---
for output in '>&-' '| head -n 1' '>/dev/full' '2>&-' '>&- 2>&-'; do
  rm -rf new
  last="train $output"
  # shellcheck disable=SC2294
  eval '( "$bin/train" "${new[@]}" --quiet=off; echo $? >status )' "$output" >screen 2>err
  check "exit code" test "$(cat status)" = 0
  check "each step once" each_step_once new/metrics.jsonl 20
  check "metrics are JSON" json_lines new/metrics.jsonl
  fields new/metrics.jsonl >a
  check "the same numbers" cmp plain a
  check "whole" "$bin/train" --eval-only --resume=last --out-dir=new
done
full_screen() { # CODE PATTERN ARG...: train onto a screen that is full
  last="train ${*:3} >/dev/full"
  "$bin/train" "${@:3}" >/dev/full 2>err </dev/null
  check "exit code" test $? = "$1"
  err_says "$2"
}
full_screen 3 'used .*other\.txt has .* and hash|text of .* with hash' --resume --out-dir=used --data=other.txt --max-iters=40
full_screen 1 '^train: standard output could not be written' --eval-only --resume=last --out-dir=used
full_screen 1 '^train: standard output could not be written' "${data[@]}" --quiet=off --dry-run

# --- a locale with decimal commas ---
locale=$(locale -a 2>/dev/null | grep -iE '^(de|fr|es|it|nl|pl|ru)_.*utf-?8' | head -n 1)
if [ -z "$locale" ] && mkdir locales && localedef -i de_DE -f UTF-8 ./locales/de_DE.UTF-8 2>/dev/null; then
  export LOCPATH=$work/locales
  locale=de_DE.UTF-8
fi
if [ -n "$locale" ] && [ "$(LC_ALL=$locale locale decimal_point)" = , ]; then
  rm -rf new
  # with LOCPATH the C library itself keeps a few bytes, which is no leak of ours
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 LC_ALL=$locale run 0 train "${new[@]}" --lr=0.001 --quiet=off
  check "no commas in numbers" test "$(grep -cE '[0-9],[0-9]' out)" = 0
  fields new/metrics.jsonl >a
  check "$locale changes no number" cmp plain a
  check "metrics are JSON" json_lines new/metrics.jsonl
else
  skipped "decimal commas: no such locale"
fi
unset LOCPATH

# --- numbers that are not finite ---
rm -rf new
run 5 train "${new[@]}" --optim=sgd --lr=100 --min-lr=100 --grad-clip=0 --warmup-iters=0 --max-iters=100
step=$(sed -nE 's/^train: step ([0-9]+): .*/\1/p' err)
err_says '^train: step [0-9]+: (the gradient of )?(transformer|lm_head)\.[a-z_.0-9]+ .*; the last good checkpoint is in new; try a smaller --lr'
check "the step is the one after the last line" each_step_once new/metrics.jsonl $((${step:-0} - 1))
check "metrics are JSON" json_lines new/metrics.jsonl
check "the checkpoint is whole" "$bin/train" --eval-only --resume=best --out-dir=new

# --- a disk that is full ---
full() { # NAME: what holds after a run in "new" whose saving failed at step 20, and was good at step 10
  err_says '^warning: saving .*new/.*failed while .*; training goes on'
  err_says '^train: the run ended at step 20, which could NOT be saved; go on from what is there with: train --resume --out-dir '
  check "$1: no temporary is left" no_temporaries new
  check "$1: each step once" each_step_once new/metrics.jsonl 20
  check "$1: the previous checkpoint is as it was" cmp new/last.h5 last.was
  check "$1: and whole" "$bin/train" --eval-only --resume=last --out-dir=new
  check "$1: so is the best" "$bin/train" --eval-only --resume=best --out-dir=new
}
rm -rf new
run 0 train "${new[@]}" --max-iters=10 --lr-decay-iters=20
cp new/last.h5 last.was
cp -r new new.was
for trap in : "trap '' XFSZ"; do
  rm -rf new
  cp -r new.was new
  last="train with ulimit -f"
  (eval "$trap"; ulimit -f 100; "$bin/train" --resume=last --out-dir=new --max-iters=20 >out 2>err)
  check "ulimit -f: exit code" test $? = 1
  err_says '^warning: saving .* failed while .*: File too large'
  full "ulimit -f"
done
last="train on a full disk"
# shellcheck disable=SC2016
if unshare -rm bash -c 'mkdir -p disk && mount -t tmpfs -o size=1100k none disk' 2>/dev/null; then
  for room in 150 0; do # KiB: enough for the metrics; not even that
    unshare -rm bash -c 'mount -t tmpfs -o size=1100k none disk && cp -r new.was disk/new
      left=$(df -k --output=avail disk | tail -n 1)
      head -c $(((left - $2) * 1024)) /dev/zero >disk/ballast
      rm -rf new
      "$1/train" --resume=last --out-dir=disk/new --max-iters=20 >out 2>err
      echo $? >status
      rm disk/ballast
      cp -r disk/new new' - "$bin" $room
    if [ $room = 0 ]; then
      check "full from the start: exit code" test "$(cat status)" = 1
      err_says 'run.json .*: No space left on device'
      check "full from the start: the folder is as it was" diff -r new new.was
    else
      check "full disk: exit code" test "$(cat status)" = 1
      err_says 'No space left on device'
      full "full disk"
    fi
  done
else
  skipped "a disk that is full: no right to mount one"
fi
finish
