#!/usr/bin/env bash
# train.sh -- what train does when all goes well: learning, files, output, every option once.
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 40000 >t.txt
short=("${tiny[@]}" --data t.txt --max-iters=30 --eval-interval=10 --warmup-iters=5 --quiet)
done_line='^done: step [0-9]+ \| val loss [0-9]+\.[0-9]{4} \| ppl [0-9.]+ \| [0-9.]+ bits/char \| [0-9.]+ s \| '

# --- a run learns, and leaves what it should ---
entropy=$(awk '{ n = length($0); for (i = 1; i <= n; i++) count[substr($0, i, 1)]++; count["\n"]++; all += n + 1 }
  END { for (c in count) h -= count[c] / all * log(count[c] / all); print h }' t.txt)
run 0 train "${tiny[@]}" --data t.txt --max-iters=300 --eval-interval=50 --lr=3e-3 --out-dir=run --keep=3
err_empty
val=$(val_loss run/metrics.jsonl 300)
check "val loss $val, well below the entropy of single characters" below "$val" "$(awk -v h="$entropy" 'BEGIN { print h - 0.6 }')"
check "the done line" grep -qE "${done_line}run/best\.h5$" out
check "it is the last" test "$(tail -n 1 out | cut -c 1-5)" = done:
check "it has the loss of the metrics" grep -q "val loss $(printf %.4f "$val") " out
check "bits are loss / log 2" near "$(grep -oE '[0-9.]+ bits' out | cut -d' ' -f1)" "$(awk -v x="$val" 'BEGIN { print x / log(2) }')" .001
check "ppl is exp(loss)" near "$(grep -oE 'ppl [0-9.]+' out | cut -d' ' -f2)" "$(awk -v x="$val" 'BEGIN { print exp(x) }')" .011
check "a line for each interval" test "$(grep -c '^step ' out)" = 7
check "their form" grep -qE '^step 250/300 83% \| loss [0-9.]+ \| val [0-9.]+ \| norm [0-9.]+ \| lr [0-9.]+e-[0-9]+ \| [0-9.]+ ms \| [0-9.]+k tok/s \| .*rss [0-9]+M \| eta 0:' out
check "the number of parameters" grep -qE '^27168 parameters; memory about [0-9.]+ MiB' out
check "the options" grep -q 'n-embd=32' out
check_not "no control characters" grep -q "$(printf '[\r\033]')" out
for file in run.json metrics.jsonl best.h5 last.h5 last.1.h5 last.2.h5; do check "$file is there" test -s "run/$file"; done
check "and no other file" test "$(find run -mindepth 1 | wc -l)" = 6
check "each step once" each_step_once run/metrics.jsonl 300
check "metrics are JSON" json_lines run/metrics.jsonl
check "val_loss where it was evaluated" test "$(fields run/metrics.jsonl | awk '$3 != "-" { printf "%s ", $1 }')" = "0 50 100 150 200 250 300 "
for key in ms tokens_per_s elapsed_s rss_bytes; do check "$key" grep -q "^{\"step\": 300.*\"$key\": [0-9.]*[,}]" run/metrics.jsonl; done
check "warm-up" test "$(fields run/metrics.jsonl | awk '$1 == 50 { a = $4 } $1 == 100 { print (a < $4) }')" = 1
check "the rate ends near --min-lr" near "$(fields run/metrics.jsonl | awk '$1 == 300 { print $4 }')" 1e-4 1e-6
check "run.json has the options" grep -q '"n-embd": 32' run/run.json
check "run.json has the text" grep -q '"corpus_bytes": '"$(wc -c <t.txt)" run/run.json
if command -v python3 >/dev/null; then check "run.json is JSON" python3 -m json.tool run/run.json; fi

# --- --keep, --save-interval, samples ---
run 0 train "${short[@]}" --out-dir=keep1 --keep=1
check "keep 1" test "$(echo keep1/*.h5)" = "keep1/best.h5 keep1/last.h5"
run 0 train "${short[@]}" --out-dir=keep2 --save-interval=7
check "keep 2" test "$(echo keep2/*.h5)" = "keep2/best.h5 keep2/last.1.h5 keep2/last.h5"
run 0 train "${short[@]}" --out-dir=samples --sample-every=15 --prompt='The of'
check "two samples" test "$(grep -c '^--- step \(15\|30\) ---$' samples/samples.txt)" = 2
check "they begin with the prompt" test "$(grep -c '^The of' samples/samples.txt)" -ge 2
check "of 200 tokens each" test "$(wc -c <samples/samples.txt)" = $((2 * (6 + 200 + 1 + 16)))
check_not "--quiet: not on the screen" grep -q -- "--- sample" out
fields keep1/metrics.jsonl >a
fields samples/metrics.jsonl >b
check "samples and saving change nothing" cmp a b

# --- little output ---
run 0 train "${short[@]}" --out-dir=quiet
err_empty
check "--quiet: the done line only" test "$(grep -cE "${done_line}quiet/best\.h5" out) $(wc -l <out)" = "1 1"
run 0 train "${short[@]}" --quiet=off --log-interval=3 --out-dir=log
check "--log-interval" test "$(grep -c '^step ' out)" = 13

if command -v script >/dev/null && script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
  for term in dumb xterm; do
    TERM=$term script -qec "stty cols 40; '$bin/train' ${short[*]} --quiet=off --out-dir=$term" /dev/null </dev/null |
      tr '\r' '\n' >screen
    last="train in a terminal"
    check "$term: the done line" grep -q '^done: step 30 ' screen
    check "$term: no bar is wider" test "$(grep -E '^ *[0-9]+% \[' screen | awk 'length > 39' | wc -l)" = 0
    check_not "$term: no escape codes" grep -q "$(printf '\033')" screen
  done
else
  skipped "a terminal of 40 columns: no script(1)"
fi

# --- nothing written ---
run 0 train "${short[@]}" --out-dir=dry --dry-run --dump-graph=graph.dot
out_says '^dry run: loss [0-9.]+, [0-9.]+ ms a step.*30 steps.*nothing was written'
check "--dry-run writes no folder" test ! -e dry
check "--dump-graph" grep -q digraph graph.dot
check "--dump-graph is whole" test "$(tail -n 1 graph.dot)" = "}"
check "and has the operations" grep -q softmax graph.dot
run 0 train --eval-only --resume=best --out-dir=run
check "--eval-only gives the loss of the run" test "$(loss_of out)" = "$(printf 'val loss %.4f' "$val")$(loss_of out | sed 's/val loss [0-9.]*//')"
loss_of out >a
cp -r run before
run 0 train --eval-only --init-from=run/best.h5 --data=t.txt
loss_of out >b
check "the same from --init-from" cmp a b
check "--eval-only changes nothing" diff -r run before
check "and makes no folder" test ! -e runs

# --- where the text comes from ---
tail -c 5000 t.txt >v.txt
run 0 train "${short[@]}" --val-data=v.txt --quiet=off --out-dir=val
check "--val-data" grep -qE "t.txt: $(wc -c <t.txt) tokens to train on, 5000 to validate" out
run 0 train "${short[@]}" --val-frac=0 --out-dir=val0
check "--val-frac 0: no loss" grep -qE '^done: step 30 \| [0-9.]+ s \| val0/last\.h5$' out
check "and no best.h5" test ! -e val0/best.h5
check_not "and no val_loss" grep -q val_loss val0/metrics.jsonl
cp t.txt in
run 0 train "${short[@]}" --data=- --quiet=off --out-dir=stdin
rm in
out_says '^the text comes from standard input: this run can be resumed only with --data FILE of the same text$'
check "which is said at the start" test "$(grep -nE 'can be resumed only|^step 0/' out | head -n 1 | grep -c resumed)" = 1
cp -r stdin stdin.was
run 2 train --resume --out-dir=stdin
err_says 'standard input cannot be read again: go on with --data FILE of the same text$'
check "nothing was changed" diff -r stdin stdin.was
cp -r stdin piped
run 0 train --resume --out-dir=piped --data=t.txt --max-iters=40
check "which works" each_step_once piped/metrics.jsonl 40
fields quiet/metrics.jsonl >a
fields stdin/metrics.jsonl >b
check "standard input is the same text" cmp a b
run 0 train "${short[@]}" --tokenizer=byte --quiet=off --out-dir=byte
out_says 'vocabulary 256'
out_says '^done: .* bits/byte \| '
head -c 5000 /dev/urandom >binary
run 0 train "${short[@]}" --data=binary --tokenizer=byte --out-dir=binary.run
printf 'Grüße, 世界 und €! %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 >utf8.txt
run 0 train "${short[@]}" --data=utf8.txt --quiet=off --out-dir=utf8
out_says 'utf8.txt: 306 tokens to train on, 34 to validate, vocabulary 14'

# --- where the options come from ---
printf '# a comment\nn-embd = 16\nn_head = 1   # another\n\nmax-iters = 30\nattn = elu1\n' >c.conf
run 0 train --data=t.txt --config=c.conf --n-layer=1 --max-iters=20 --block-size=16 --quiet --out-dir=config
for pair in '"n-embd": 16' '"n-head": 1' '"max-iters": 20' '"attn": "elu1"' '"n-layer": 1'; do
  check "--config, and the command line wins" grep -q "$pair" config/run.json
done
run 0 train --data=t.txt --preset=shakespeare-gpu "${tiny[@]}" --dry-run
for value in dropout=0.2 max-iters=5000 n-layer=2 block-size=32; do out_says "$value"; done
run 0 train "${short[@]}" --n_embd 16 --out-dir underscore
check "underscores, and values after a space" grep -q '"n-embd": 16' underscore/run.json
run 0 train --data=t.txt "${tiny[@]}" --max-iters=1 --seed=5 --attn=elu1:chunk=8 --quiet
check "the usual folder" test -s runs/elu1-chunk-8-s5/best.h5

# --- the model and its training ---
for option in --optim=sgd --pos=rope --pos=none --bias --dropout=0.2 --schedule=linear --schedule=constant \
  --weight-decay=0 --grad-clip=0 --eval-iters=2 --seed=7; do
  run 0 train "${short[@]}" --lr=3e-3 $option --out-dir="o$option"
  fields "o$option/metrics.jsonl" >a
  check "$option has an effect" test "$(cmp -s a b && echo same)" = ""
  cp a b
  check "$option learns" below "$(val_loss "o$option/metrics.jsonl" 30)" "$(val_loss "o$option/metrics.jsonl" 0)"
done
run 0 train "${short[@]}" --lr=3e-3 --dropout=0.2 --recompute --out-dir=recompute
fields recompute/metrics.jsonl >a
fields o--dropout=0.2/metrics.jsonl >b
check "--recompute changes nothing" cmp a b
for value in on off; do
  run 0 train "${short[@]}" --dry-run --quiet=off --recompute=$value
  grep -oE 'step [0-9.]+' out | head -n 1 | cut -d' ' -f2 >bytes.$value
done
check "but needs less memory" below "$(cat bytes.on)" "$(cat bytes.off)"
run 0 train "${short[@]}" --grad-accum=2 --batch-size=2 --out-dir=accum
check "two batches of 2 are one of 4" near "$(val_loss accum/metrics.jsonl 30)" "$(val_loss quiet/metrics.jsonl 30)" 1e-4
check "each step once" each_step_once accum/metrics.jsonl 30
run 0 train "${short[@]}" --max-iters=100 --lr=0 --min-lr=0 --patience=2 --save-interval=7 --out-dir=patience
out_says '^no progress in 2 evaluations: ended at step 20$'
run 0 train --resume=last --out-dir=patience --log-interval=1 --quiet=off
check_not "the last step was saved, and no step is left" grep -q '^step ' out
run 0 train "${short[@]}" --max-iters=200 --lr=3e-3 --overfit-batch --out-dir=overfit
check "--overfit-batch" below "$(fields overfit/metrics.jsonl | awk '$1 == 200 { print $2 }')" 0.2
run 0 train "${short[@]}" --max-iters=0 --out-dir=zero
check "no steps at all" each_step_once zero/metrics.jsonl 0

run 0 train --list-attn
cp out listed
names=$(sed -nE 's/^([a-z0-9-]+), .*/\1/p' out)
check "variants" test "$(echo "$names" | wc -l)" = "$(grep -c '^X(' "$root/autograd/attention/attn.def")"
for name in $names; do
  if [ "$name" = linformer ]; then
    run 2 train "${short[@]}" --attn="$name" --out-dir=none-there
    err_says 'linformer has no causal form: it projects keys'
    run 0 train "${short[@]}" --attn="$name" --objective=mlm --out-dir="attn-$name"
  else
    run 0 train "${short[@]}" --attn="$name" --out-dir="attn-$name"
  fi
  check "$name learns" below "$(val_loss "attn-$name/metrics.jsonl" 30)" 3.7
  check "$name: each step once" each_step_once "attn-$name/metrics.jsonl" 30
done
for name in softmax elu1 double-softmax window; do
  run 0 train "${short[@]}" --attn="$name:chunk=8" --out-dir="chunk-$name"
  check "$name: chunks change nothing" near "$(val_loss "attn-$name/metrics.jsonl" 30)" "$(val_loss "chunk-$name/metrics.jsonl" 30)" 1e-3
done

# --- patterns over layers and heads, and what stands around the variants ---
for spec in elu1/window:w=8 elu1@1+window:w=8@1 taylor2:d=4,norm=rms elu1:decay=learned favor:m=16,redraw=10 \
  lsh:buckets=4,c=4/none; do
  run 0 train "${short[@]}" --attn="$spec" --short-conv=4 --out-dir="pattern"
  check "$spec learns" below "$(val_loss pattern/metrics.jsonl 30)" 3.7
  run 0 generate --checkpoint pattern/last.h5 --prompt=t --tokens=40
  check "$spec writes" test "$(wc -c <out)" -ge 40
  rm -r pattern
done
run 2 train "${short[@]}" --attn=elu1@1+window@2 --out-dir=no
err_says '3 heads, and a layer has 2'
run 2 train "${short[@]}" --attn=exp:decay=0.9 --out-dir=no
err_says 'decay fades a plain sum'
run 2 train "${short[@]}" --attn=elu1:decay=0.9 --objective=mlm --out-dir=no
err_says 'has no before'
run 2 train "${short[@]}" --attn=kernel:q=relu,k=softmax --out-dir=no
err_says 'unknown feature map "softmax"'
run 2 train "${short[@]}" --attn=cosformer:length=3 --out-dir=no
err_says 'texts of that many tokens, and --block-size is'
run 0 train "${short[@]}" --attn=cosformer --pos=rope --sample-every=10 --out-dir=places
run 0 generate --checkpoint places/last.h5 --prompt=t --tokens=90
check "attention by places: the state is rebuilt" test "$(wc -c <out)" -ge 90
err_says 'tokens at a time'
run 2 train "${short[@]}" --short-conv=1 --out-dir=no
err_says 'sees no other token'
run 0 train "${short[@]}" --attn=elu1:eps=.1,chunk=16 --out-dir=eps
check_not "eps has an effect" test "$(val_loss eps/metrics.jsonl 30)" = "$(val_loss attn-elu1/metrics.jsonl 30)"

# --- the masked objective: hidden tokens, the same ones in every evaluation ---
mlm=("${short[@]}" --objective=mlm --lr=3e-3)
run 0 train "${mlm[@]}" --max-iters=300 --eval-interval=50 --quiet=off --out-dir=mlm
out_says '^done: step 300 \| val loss [0-9.]+ \| ppl [0-9.]+ \| [0-9.]+ bits/hidden char \| '
out_says 'objective=mlm'
check "mlm: [MASK] is one more row" grep -qE '^27200 parameters' out
vocab=$(grep -oE 'vocabulary [0-9]+' out | cut -d' ' -f2)
check "mlm: it begins near ln $vocab" near "$(val_loss mlm/metrics.jsonl 0)" "$(awk -v v="$vocab" 'BEGIN { print log(v) }')" .15
check "mlm: it learns" below "$(val_loss mlm/metrics.jsonl 300)" "$(val_loss mlm/metrics.jsonl 0 | awk '{ print $1 - .5 }')"
loss_of out >a
run 0 train --eval-only --resume=last --out-dir=mlm
loss_of out >b
check "mlm: --eval-only gives the loss of the run" cmp a b
run 0 train --init-from=mlm/last.h5 --data=t.txt --max-iters=0 --batch-size=3 --seed=9 --quiet --out-dir=mlm.init
check "mlm: the same masks for another seed and batch" test "$(val_loss mlm.init/metrics.jsonl 0)" = "$(val_loss mlm/metrics.jsonl 300)"
check "mlm: --init-from takes the objective" grep -q '"objective": "mlm"' mlm.init/run.json
run 0 train "${mlm[@]}" --max-iters=200 --overfit-batch --out-dir=mlm.overfit
check "mlm: --overfit-batch" below "$(fields mlm.overfit/metrics.jsonl | awk '$1 == 200 { print $2 }')" 0.2
run 0 train "${mlm[@]}" --max-iters=1 --seed=5
check "mlm: a folder beside the causal run's" test -s runs/softmax-mlm-s5/best.h5

# --- the same numbers, whatever the number of threads; evaluation, whatever the batch ---
for name in softmax elu1 double-softmax cosine; do
  for threads in 1 2 3; do
    run 0 train "${short[@]}" --attn="$name" --dropout=.1 --threads="$threads" --out-dir="$name-$threads"
    fields "$name-$threads/metrics.jsonl" >"fields.$threads"
  done
  check "$name: 1 and 2 threads" cmp fields.1 fields.2
  check "$name: 1 and 3 threads" cmp fields.1 fields.3
  check "$name: weights" same_weights "$name-1/last.h5" "$name-3/last.h5"
done
for batch in 1 4 7; do
  run 0 train "${short[@]}" --max-iters=0 --batch-size="$batch" --out-dir="batch$batch"
  check "evaluation with a batch of $batch" test "$(val_loss "batch$batch/metrics.jsonl" 0)" = "$(val_loss quiet/metrics.jsonl 0)"
done

# --- weights of another run ---
run 0 train --init-from=run/last.h5 --data=t.txt --max-iters=10 --lr=1e-4 --quiet --out-dir=init
check "--init-from: its weights" test "$(val_loss init/metrics.jsonl 0)" = "$(val_loss run/metrics.jsonl 300)"
check "--init-from: begins at step 0" each_step_once init/metrics.jsonl 10
check "--init-from: its shape" grep -q '"n-embd": 32' init/run.json
run 0 train "${tiny[@]}" --init-from=run/last.h5 --data=t.txt --overwrite --max-iters=5 --quiet --out-dir=init
check "--overwrite: the new run only" each_step_once init/metrics.jsonl 5

# --- help ---
for option in -h --help --help-all --version --list-attn --help-man --help-bash; do
  run 0 train "$option"
  err_empty
  check "$option prints" test "$(wc -c <out)" -gt 20
done
run 0 train --help-all
sed -nE 's/^X\([A-Z]+, [a-z0-9_]+, "([a-z0-9-]+)", .*[ |]T[|,].*/\1/p' "$root/train/options.def" >options
check "options of the table" test "$(wc -l <options)" -gt 35
while read -r option; do out_says "^ *--$option( |\$|\[)"; done <options
run 0 train --help
check "a short help" test "$(wc -l <out)" -le 30
run 0 train --version
out_says '^lina [0-9]+\.[0-9]+'
check "nothing was written into the folder of the test but by --out-dir" test ! -e last.h5 -a ! -e metrics.jsonl
finish
