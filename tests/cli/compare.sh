#!/usr/bin/env bash
# compare.sh -- what compare promises: every run alike, nothing run twice, stops that lose nothing, results
# that follow their schema, and sentences for what cannot be compared.
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 30000 >t.txt
short=("${tiny[@]}" --warmup-iters=2 --max-iters=20 --eval-interval=10 --eval-iters=2)
two=(--attn=softmax --attn='elu1 short-conv=4')

# python3 -c PROGRAM FILE...: with the results as r (and s); checks nothing where there is no Python
py() { # WHAT PROGRAM FILE [FILE]
  command -v python3 >/dev/null || return 0
  check "$1" python3 -c "import json, sys
r = json.load(open(sys.argv[1])); s = json.load(open(sys.argv[-1]))
$2" "${@:3}"
}
# All but what depends on the clock and the machine.
same='def plain(x):
    for k in ("machine", "speed", "command"): x.pop(k)
    for run in x["runs"]: run.pop("timing")
    return x
assert plain(r) == plain(s)'

running() { grep -qs -- "$1" /proc/[0-9]*/cmdline; } # PATTERN: in the words of a process

# --- the whole, small ---
run 0 compare "${two[@]}" --attn=elu1/window:w=4 --data t.txt --task=induction:length=32,vocab=20 --seeds=2 "${short[@]}" \
  --longest=256 --out-dir=whole
check "nothing on standard error, or that gnuplot is missing" awk '!/gnuplot/ { exit 1 }' err
for file in results.json results.csv report.html; do check "$file" test -s "whole/$file"; done
check "the table" grep -qE '^  elu1/window:w=4 +[0-9.]+ \+- [0-9.]+ +[-+][0-9.]+ \+- [0-9.]+ +(\(\*\))? +2$' out
check_not "no control characters" grep -q "$(printf '[\r\033]')" out
follows_schema whole/results.json
py "what a run was made with" '
x = [x for x in r["runs"] if x["variant"] == "elu1 short-conv=4"][0]
assert x["options"]["short-conv"] == "4" and x["options"]["n-embd"] == "32" and "n-head" in x["options"]
assert x["timing"]["threads"] >= 1 and x["timing"]["jobs"] == 1' whole/results.json
py "every run reaches the target of a text" '
assert all(x["steps_to_target"]["n"] == 2 and x["steps_to_target"]["mean"] <= 20 for x in r["summary"] if x["problem"] == "t")
assert r["problems"][0]["target"] == max(x["final"]["val_loss"] for x in r["runs"] if x["problem"] == "t")' whole/results.json
py "two problems, three variants, two seeds" 'assert len(r["runs"]) == 12 and r["complete"]
assert {x["seed"] for x in r["runs"]} == {1, 2}
assert [p["measure"] for p in r["problems"]] == ["val_loss", "val_accuracy"]' whole/results.json
py "the same data: equal losses before the first step where the weights are drawn alike" '
first = {(x["variant"], x["seed"]): x["curve"]["val_loss"][0] for x in r["runs"] if x["problem"] == "t"}
assert abs(first["softmax", 1] - first["elu1/window:w=4", 1]) < .02 and first["softmax", 1] != first["softmax", 2]' whole/results.json
py "means, deviations and differences are those of the runs" '
from math import sqrt
for row in r["summary"]:
    which = "loss" if row["problem"] == "t" else "accuracy"
    x = {v: [run["final"]["val_" + which] for run in r["runs"] if run["problem"] == row["problem"] and run["variant"] == v]
         for v in (row["variant"], "softmax")}
    mine, base = x[row["variant"]], x["softmax"]
    mean = sum(mine) / 2; half = 12.706204736174705 * abs(mine[0] - mine[1]) / 2
    assert abs(row[which]["mean"] - mean) < 1e-12 and abs(row[which]["ci95"] - half) < 1e-10
    assert abs(row[which]["sd"] - abs(mine[0] - mine[1]) / sqrt(2)) < 1e-12
    if row["variant"] == "softmax": assert row["difference"] is None; continue
    d = [a - b for a, b in zip(mine, base)]
    half = 12.706204736174705 * abs(d[0] - d[1]) / 2
    assert abs(row["difference"]["mean"] - sum(d) / 2) < 1e-12 and abs(row["difference"]["ci95"] - half) < 1e-10
    assert row["difference"]["distinguishable"] == (abs(sum(d) / 2) > half)' whole/results.json
py "counting baselines, from worst to best" '
b = [x["loss"] for x in r["problems"][0]["baselines"]]
assert len(b) == 6 and all(x > y for x, y in zip(b[:4], b[1:]))' whole/results.json
py "chances of the task" 'p = r["problems"][1]; assert 0 < p["chance"] < .1 and p["vocab"] == 20' whole/results.json
py "lengths 128 and 256 for each variant, and gradients that pass" '
assert [x["length"] for x in r["speed"]["length"]] == [128, 256] * 3
assert all(x["ms_per_step"] > 0 and x["peak_bytes"] > 0 for x in r["speed"]["length"])
assert sorted(x["name"] for x in r["gradcheck"]) == ["elu1", "softmax", "window"]
assert all(x["pass"] for x in r["gradcheck"])' whole/results.json
py "how generation differs from training is noted" '
assert [(x["variant"], x["what"]) for x in r["speed"]["notes"]] == [(v["name"], "decode") for v in r["variants"]]
assert all("--pos none" in x["text"] for x in r["speed"]["notes"])' whole/results.json
py "loss by position: refused with learned positions beyond the window, and at 1x the loss itself" '
for x in r["positions"]: assert bool(x["refused"]) == (x["times"] > 1) and (x["refused"] or None not in x["loss"])
assert {x["times"] for x in r["positions"]} == {1, 4, 16}' whole/results.json
py "entropy of each head, at most that of equal weights" '
assert len(r["entropy"]) == 3 * 4 and all(0 <= x["mean"] <= x["uniform"] + 1e-6 for x in r["entropy"])' whole/results.json
py "a sample of each variant" 'assert [x["variant"] for x in r["samples"]] == [v["name"] for v in r["variants"]]' whole/results.json

# --- again: nothing is run twice; another seed is added to what is there ---
ls -l --time-style=full-iso whole/records >before
run 0 compare "${two[@]}" --attn=elu1/window:w=4 --data t.txt --task=induction:length=32,vocab=20 --seeds=2 "${short[@]}" \
  --longest=256 --out-dir=whole
ls -l --time-style=full-iso whole/records >after
check "all records are as they were" cmp before after
check "12 of 12 were done" grep -q '12 runs, 12 of them done' out
run 0 compare "${two[@]}" --data t.txt --seeds=3 "${short[@]}" --longest=0 --out-dir=whole --quiet
check "two runs were added, and no other" test "$(($(find whole/runs -name 'metrics.jsonl' | wc -l)))" = 14
echo '{' >"$(ls whole/records/t-softmax-s1-*.json)"
echo '{}' >"$(ls whole/records/t-softmax-s2-*.json)"
echo '[1]' >"$(ls whole/records/model-t-softmax-s1-*.json)"
run 0 compare "${two[@]}" --data "$work/t.txt" --seeds=3 "${short[@]}" --longest=0 --out-dir=whole --quiet
err_says 'note: .*t-softmax-s1-.*is damaged'
err_says 'note: .*t-softmax-s2-.*is no record of a run'
check "whatever the path to the text, no other run was made anew" test "$(find whole/runs -name metrics.jsonl | wc -l)" = 14
py "and the model is looked at again" 'assert {x["variant"] for x in r["entropy"]} == {"softmax", "elu1 short-conv=4"}' whole/results.json
rm -rf whole/runs
run 0 compare "${two[@]}" --data t.txt --seeds=3 "${short[@]}" --longest=0 --out-dir=whole --quiet
check_not "with records, nothing is trained" test -d whole/runs
run 0 compare --report whole/results.json
check "report and table only" test "$(tr '\n' ' ' <out)" = "whole/report.html whole/results.csv "

# --- what the measurements are started with: a bench that notes it, beside a copy of compare ---
mkdir beside
cp "$bin/compare" beside
ln -s "$bin/train" "$bin/gradcheck" beside
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "$OMP_NUM_THREADS $*" >>%q\nexec %q "$@"\n' "$PWD/asked" "$bin/bench" >beside/bench
chmod +x beside/bench
with_threads() { # N: what bench is asked for by a comparison of N threads
  rm -f asked
  checks=$((checks + 1))
  beside/compare --attn='elu1 recompute=on dropout=.1' --data t.txt --seeds=1 "${short[@]}" --optim=sgd --longest=128 \
    --out-dir=asks --quiet --threads="$1" >out 2>err </dev/null || fail "compare beside another bench: $(tail -n 3 err)"
}
with_threads 1
check "threads, and all that a training step depends on" grep -qE \
  '^1 train (.* )?--dropout=0\.1 --optim=sgd --recompute=on (.* )?--block-size=128 ' asked
check "generation takes the model alone" grep -qE '^1 decode .*--positions=16,64$' asked
check_not "generation does not train" grep -qE '^1 decode .*(--dropout|--optim|--recompute)' asked
with_threads 1
check_not "nothing is measured twice" test -e asked
gradients=$(ls -l --time-style=full-iso asks/records/gradcheck-*)
with_threads 2
check "with other threads times are other ones" test "$(cut -d' ' -f1,2 asked | tr '\n' ',')" = "2 train,2 decode,"
check "gradients are not" test "$(ls -l --time-style=full-iso asks/records/gradcheck-*)" = "$gradients"
printf '#!/bin/sh\ncase "$*" in *--block-size=256*) kill -9 $$ ;; esac\nexec %q "$@"\n' "$bin/bench" >beside/bench
checks=$((checks + 1))
beside/compare --attn=elu1 --data t.txt --seeds=1 "${short[@]}" --longest=256 --out-dir=killed --quiet >out 2>err </dev/null ||
  fail "compare whose bench is killed: $(tail -n 3 err)"
follows_schema killed/results.json
py "what was killed did not fit" '
assert [x["refused"][:12] for x in r["speed"]["length"]] == ["", "did not fit:"]' killed/results.json
printf '#!/bin/sh\necho "bench: --colour is no option" >&2\nexit 2\n' >beside/bench
last="compare whose bench refuses its options"
beside/compare --attn=elu1 --data t.txt --seeds=1 "${short[@]}" --longest=256 --out-dir=misused --quiet >out 2>err </dev/null
check "the rest is there" test $? = 0
err_says '^note: elu1: bench train: --colour is no option$'
py "and it is said what is missing" 'assert not r["complete"] and any("--colour" in x for x in r["missing"]) and r["runs"]' misused/results.json
last=

# --- stopped and killed ---
long=("${two[@]}" --data t.txt --seeds=2 "${tiny[@]}" --max-iters=300 --eval-interval=50 --eval-iters=2 --longest=0)
run 0 compare "${long[@]}" --out-dir=straight --quiet
for how in TERM KILL INT; do
  "$bin/compare" "${long[@]}" --out-dir="stop$how" --jobs=2 >out 2>err </dev/null &
  pid=$!
  for _ in $(seq 2000); do # the second run of four is at work, and has a checkpoint
    [ "$(cat "stop$how"/runs/*/metrics.jsonl 2>/dev/null | wc -l)" -gt 420 ] && break
    kill -0 "$pid" 2>/dev/null || break
    sleep .01
  done
  kill -s "$how" "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  code=$?
  last="compare, stopped by SIG$how"
  case $how in
  TERM) check "143 after SIGTERM" test "$code" = 143 && check "how to go on" grep -q 'the same command goes on' out &&
    py "some of it is missing" 'assert not r["complete"]' stopTERM/results.json ;;
  INT) check "130 after SIGINT" test "$code" = 130 ;;
  KILL) check "killed" test "$code" = 137 ;;
  esac
  for _ in $(seq 500); do # the trainings of a killed compare are stopped by the system
    running "out-dir=stop$how/runs" || break
    sleep .02
  done
  check_not "no training goes on by itself" running "out-dir=stop$how/runs"
  run 0 compare "${long[@]}" --out-dir="stop$how" --quiet
  py "as if it had not been stopped" "$same" straight/results.json "stop$how/results.json"
done
py "side by side and one after the other" "$same" straight/results.json stopTERM/results.json

# --- one at a time in a folder ---
"$bin/compare" "${long[@]}" --max-iters=2000 --out-dir=locked >/dev/null 2>&1 </dev/null &
pid=$!
for _ in $(seq 1000); do ls locked/runs/*/metrics.jsonl >/dev/null 2>&1 && break; sleep .01; done
run 2 compare "${long[@]}" --out-dir=locked --quiet
err_says 'another run is writing to the folder locked'
kill -s TERM "$pid"
wait "$pid"

"$bin/compare" --attn=softmax --attn='elu1 lr=1e-3' --data t.txt --seeds=1 "${tiny[@]}" --lr 1e-4,1e-3 --max-iters=100000 --eval-iters=2 \
  --longest=0 --out-dir=within --quiet >out 2>err </dev/null &
pid=$!
for _ in $(seq 2000); do
  [ "$(cat within/runs/*/metrics.jsonl 2>/dev/null | wc -l)" -gt 20 ] && break
  kill -0 "$pid" 2>/dev/null || break
  sleep .01
done
kill -s TERM "$pid"
wait "$pid"
code=$?
last="compare, stopped while rates are tried ($(head -n 1 err))"
check "143, before a variant with a rate of its own has a run" test "$code" = 143
follows_schema within/results.json
last=

# --- budgets, numbers of parameters, sweeps ---
run 0 compare "${two[@]}" --data t.txt --seeds=1 "${tiny[@]}" --budget tokens:1300 --longest=0 --out-dir=tokens --quiet
py "1,300 tokens are 11 steps of 128" 'assert all(x["steps"] == 11 for x in r["runs"])' tokens/results.json
run 0 compare --attn=softmax --data t.txt --seeds=1 "${tiny[@]}" --budget seconds:0.2 --eval-iters=1 --longest=0 --out-dir=seconds --quiet
py "some steps fit into a fifth of a second" 'assert r["runs"][0]["steps"] >= 1' seconds/results.json
cp seconds/results.json again.json
rm seconds/records/t-softmax*
run 0 compare --attn=softmax --data t.txt --seeds=1 "${tiny[@]}" --budget seconds:0.2 --eval-iters=1 --longest=0 --out-dir=seconds --quiet
py "the steps are measured once" "$same" again.json seconds/results.json
run 0 compare --attn=softmax --task=induction --seeds=1 --n-layer=1 --n-embd=16 --n-head=2 --budget seconds:0.2 --jobs=2 --longest=0 \
  --out-dir=task-seconds --quiet
py "of tasks too" 'assert r["runs"][0]["steps"] >= 1' task-seconds/results.json
run 0 compare --attn=softmax --attn=none --attn='elu1 short-conv=4' --match-params --data t.txt --seeds=1 "${short[@]}" --longest=0 --out-dir=match --quiet
py "numbers of parameters are even, to half a width" '
n = {x["variant"]: x["parameters"] for x in r["summary"]}
assert all(abs(n[v] - n["softmax"]) <= 2 * 32 for v in n)' match/results.json
run 0 compare "${two[@]}" --data t.txt --seeds=2 "${short[@]}" --lr 1e-5,3e-3 --sweep-seeds=2 --longest=0 --out-dir=sweep --quiet
follows_schema sweep/results.json
py "the better rate is taken, by seeds of its own" '
assert all(x["chosen"] == .003 and len(x["tried"]) == 2 and x["tried"][0]["n"] == 2 for x in r["sweeps"])
assert {x["seed"] for x in r["runs"] if x["purpose"] == "sweep"} == {1001, 1002}
assert all(x["lr"] == .003 for x in r["runs"] if x["purpose"] == "main")
assert all(x["n"] == 2 for x in r["summary"])' sweep/results.json

run 0 compare --attn=softmax --attn='elu1 lr=1e-5' --data t.txt --task='induction:length=32 lr=2e-3' --seeds=7, "${short[@]}" \
  --lr 1e-3,3e-3 --longest=0 --out-dir=rates --quiet
py "a rate of its own is not chosen, whose ever it is" '
assert [(x["problem"], x["variant"]) for x in r["sweeps"]] == [("t", "softmax")] and len(r["summary"]) == 4
lr = {(x["problem"], x["variant"]): x["lr"] for x in r["runs"] if x["purpose"] == "main"}
assert lr["t", "elu1 lr=1e-5"] == 1e-5 and lr["induction:length=32", "softmax"] == .002 and len(lr) == 4
assert all(x["seed"] == 7 for x in r["runs"] if x["purpose"] == "main")' rates/results.json
check "and it has the usual tenth at its end" grep -qE '"min-lr": (1e-06|1\.0+[12]?e-06|9\.99+[0-9]?e-07)' rates/runs/t-elu1-lr-1e-5-s7-*/run.json
mkdir a b
cp t.txt a/x.txt
text 30000 2 >b/x.txt
text 30000 3 >x-2.txt
run 0 compare --attn=none --data x-2.txt --data a/x.txt --data b/x.txt --seeds=1 "${short[@]}" --longest=0 --out-dir=names --quiet
py "names of problems are different" 'assert len({p["name"] for p in r["problems"]}) == len(r["runs"]) == 3' names/results.json

cp -r rates without
rm -r without/runs without/records/model-*
run 0 compare --attn=softmax --attn='elu1 lr=1e-5' --data t.txt --task='induction:length=32 lr=2e-3' --seeds=7, "${short[@]}" \
  --lr 1e-3,3e-3 --longest=0 --out-dir=without --quiet
py "models that are gone are missing" 'assert not r["complete"] and len(r["missing"]) == 2 and all("is gone" in x for x in r["missing"])
assert len(r["summary"]) == 4' without/results.json

# --- stopped while it measures: not complete, and the next one is ---
measured=(--attn=elu1 --data t.txt --seeds=1 "${short[@]}" --longest=8192 --out-dir=measuring --quiet)
"$bin/compare" "${measured[@]}" >out 2>err </dev/null &
pid=$!
for _ in $(seq 2000); do
  ls measuring/records/model-* >/dev/null 2>&1 && break
  sleep .01
done
kill -s TERM "$pid"
wait "$pid"
code=$?
last="compare, stopped while it measured"
check "143" test "$code" = 143
py "not complete" 'assert not r["complete"] and len(r["runs"]) == 1' measuring/results.json

# --- a measurement that fails is missing; the rest is there ---
mkdir short
cp "$bin/train" "$bin/compare" "$bin/bench" short/
code=0
short/compare --attn=elu1 --data t.txt --seeds=1 "${short[@]}" --longest=0 --out-dir=no-gradcheck --quiet >out 2>err || code=$?
last="compare without gradcheck"
check "0" test "$code" = 0
err_says 'note: .*gradcheck'
py "it says what is missing" 'assert not r["complete"] and len(r["missing"]) == 1 and "gradcheck" in r["missing"][0] and r["entropy"]' no-gradcheck/results.json
follows_schema no-gradcheck/results.json

# --- runs that come to nothing ---
run 0 compare --attn=softmax --attn='elu1 lr=100 min-lr=100 grad-clip=0 warmup-iters=0 optim=sgd' --data t.txt --seeds=2 "${short[@]}" \
  --longest=0 --out-dir=diverge --quiet
follows_schema diverge/results.json
py "diverged runs are counted, and are in no mean" '
bad = r["summary"][1]
assert bad["diverged"] == 2 and bad["n"] == 0 and bad["loss"]["mean"] is None and not bad["difference"]["distinguishable"]
assert all("step " in x["message"] and "--lr" in x["message"] for x in r["runs"] if x["status"] == "diverged")
assert bad["lr"] == 100' diverge/results.json
check "and the table says so" grep -q '2 diverged' out

# --- what is refused ---
refused 2 "attn is missing" compare --data t.txt --out-dir=new
refused 2 "data .or --task. is missing" compare --attn=elu1 --out-dir=new
refused 2 'did you mean elu1' compare --attn=elu --data t.txt --out-dir=new
refused 2 'follow options of train' compare --attn='elu1 short-conv' --data t.txt --out-dir=new
refused 2 'follow options of train' compare --attn='elu1 colour=red' --data t.txt --out-dir=new
refused 2 'seed cannot be an option of elu1 alone' compare --attn='elu1 seed=7' --data t.txt --out-dir=new
refused 2 'attn cannot be an option' compare --attn='elu1 attn=softmax' --data t.txt --out-dir=new
refused 2 'max-iters cannot be an option' compare --attn='elu1 max-iters=5' --data t.txt --out-dir=new
refused 2 'tokenizer cannot be an option' compare --attn='elu1 tokenizer=byte' --data t.txt --out-dir=new
refused 2 'seed cannot be an option of copy' compare --attn=elu1 --task='copy seed=3' --out-dir=new
refused 2 'same run as' compare --attn=elu1 --attn='elu1 n-layer=4' --data t.txt --out-dir=new
refused 2 'same run as' compare --attn=elu1 --data t.txt --data ./t.txt --out-dir=new
refused 2 'distance=32 data=FILE' compare --attn=elu1 --data t.txt --task=needle:length=64,distance=32 --out-dir=new
refused 2 'seed 1001 is one of those' compare --attn=elu1 --data t.txt --seeds=1001,2 --lr=1e-3,3e-3 --out-dir=new
refused 3 'prompt has the character' compare --attn=elu1 --data t.txt --prompt=é --out-dir=new
refused 2 'argument 3 is not UTF-8' compare --attn=elu1 --data "$(printf 'caf\351.txt')" --out-dir=new
refused 2 'multiple of --n-head' compare --attn=softmax --attn='elu1 n-embd=33' --data t.txt --out-dir=new
refused 2 'given twice' compare --attn=elu1 --attn=elu1 --data t.txt --out-dir=new
refused 2 'each of --seeds must be' compare --attn=elu1 --data t.txt --seeds=1,x --out-dir=new
refused 2 '--seeds must be a whole number from 1' compare --attn=elu1 --data t.txt --seeds=0 --out-dir=new
refused 2 '--seeds has 3 twice' compare --attn=elu1 --data t.txt --seeds=3,1,3 --out-dir=new
refused 2 '--lr has nothing between two commas' compare --attn=elu1 --data t.txt --lr=1e-3,,1 --out-dir=new
refused 2 '--budget must be' compare --attn=elu1 --data t.txt --budget=hours:3 --out-dir=new
refused 2 'give one of them' compare --attn=elu1 --data t.txt --budget=steps:3 --max-iters=4 --out-dir=new
refused 2 'name a file' compare --attn=elu1 --data - --out-dir=new
refused 2 'did you mean' compare --attn=elu1 --task=mqr --out-dir=new
refused 3 'no-such-file' compare --attn=elu1 --data no-such-file --out-dir=new
refused 3 'cannot be read as results.json' compare --report t.txt
run 0 compare --report whole
run 0 compare --attn=softmax --attn='elu1 --short-conv=4' --task='needle:length=32,distance=16 data=t.txt' --seeds=1 "${short[@]}" \
  --longest=0 --out-dir=needle --quiet
py "a needle in its text" 'assert r["problems"][0]["vocab"] > 32 and r["runs"][0]["final"]["val_accuracy"] is not None' needle/results.json
run 0 compare "${two[@]}" --data t.txt --dry-run --out-dir=new
check "dry run: a line for each run" test "$(grep -c 'parameters' out)" = 6
check "and nothing is written" test ! -e new
finish
