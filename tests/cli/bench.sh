#!/usr/bin/env bash
# bench.sh -- the program bench: every mode at small sizes, what its lines say, and bad input.  No time is
# asserted: only that figures are there, positive, and agree with each other.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

have_json=no
command -v python3 >/dev/null && python3 -c 'import json' 2>/dev/null && have_json=yes

# Whether every line is one flat JSON object of numbers and strings.
objects() {
  if [ "$have_json" = yes ]; then
    python3 -c 'import json, sys
for line in open(sys.argv[1]):
    x = json.loads(line)
    assert type(x) is dict and all(type(v) in (int, float, str) for v in x.values())' "$1"
  else
    awk '!/^\{"[a-z_]+": (-?[0-9][.e0-9+-]*|"[^"]*")(, "[a-z_]+": (-?[0-9][.e0-9+-]*|"[^"]*"))*\}$/ { exit 1 }' "$1"
  fi
}

# of KEY: its number in each line that has it
of() { sed -nE "s/.*\"$1\": (-?[0-9][-+.e0-9]*).*/\\1/p" out; }
lines() { wc -l <out; }
has() { # KEY...: each line has them, positive
  local key
  for key; do check "$key in $(lines) lines" test "$(of "$key" | awk '$1 > 0' | wc -l)" = "$(lines)"; done
}
text_of() { sed -nE "s/.*\"$1\": \"([^\"]*)\".*/\\1/p" out; }
ordered() { check "$1 <= $2" awk '{ exit !($1 <= $2) }' <(paste <(of "$1") <(of "$2")); }
percent() { # the three figures of each line agree
  has gflops percent_of_peak peak_gflops
  check "percent = gflops / peak" awk '{ x = 100 * $1 / $2; if (x > $3 * 1.001 || x < $3 * .999) exit 1 }' \
    <(paste <(of gflops) <(of peak_gflops) <(of percent_of_peak))
}
repeats=3
json() { # LINES MODE ARG...
  local want=$1
  shift
  run 0 bench "$@" --json --repeats="$repeats" --threads=2
  err_empty
  check "JSON" objects out
  check "lines" test "$(lines)" = "$want"
}

# --- attention: all variants but none, or one; softmax's arithmetic by hand ---
variants=$("$bin/train" --list-attn | grep -cE '^[a-z0-9-]+, ')
repeats=1 # each mode also measures the peak, as often as that
json $((variants - 2)) attention --n=100 --d=16 --heads=2 --batch=2
has n d heads batch threads repeats forward_ms backward_ms forward_min_ms backward_min_ms planned_bytes
ordered forward_min_ms forward_ms
ordered backward_min_ms backward_ms
percent
check "not none" test "$(text_of attn | grep -c '^none$')" = 0
check "flops of softmax: 7 T (T+1) D" awk '{ x = $1 * ($2 + $3) * 1e6; w = 7 * 100 * 101 * 16 * 4; exit !(x > .999 * w && x < 1.001 * w) }' \
  <(grep '"softmax"' out | sed -nE 's/.*"forward_ms": ([^,]*), "backward_ms": ([^,]*),.*"gflops": ([^,]*),.*/\3 \1 \2/p')
if [ -w /proc/self/clear_refs ] && grep -q VmHWM /proc/self/status; then
  json 1 attention --attn=elu1 --n=4096 --d=64 --heads=4
  has peak_bytes
  # AddressSanitizer keeps what was freed, so only the plain build is held to the plan
  if ! grep -q 'LINA_SANITIZE:STRING=.' "$bin/../CMakeCache.txt"; then
    check "the plan is the growth of memory, to 10 % and 2 MiB" awk '{ d = $2 - $1; exit !(d < .1 * $1 + 2 ^ 21 && d > -.1 * $1) }' \
      <(paste <(of planned_bytes) <(of peak_bytes))
  fi
fi
json 1 attention --attn=elu1:chunk=16 --n=64 --d=8 --heads=1
json 1 attention --attn=linformer --objective=mlm --n=64 --d=8 --heads=1
json 1 attention --attn=kernel:q=exp,k=favor,m=64 --n=64 --d=64 --heads=1
run 0 bench crossover --attn=cosformer --n=100 --d=8 --heads=1 --repeats=1 --threads=1
run 0 bench crossover --attn=sparse-strided --objective=mlm --n=100 --d=8 --heads=1 --repeats=1 --threads=1
run 2 bench attention --attn=linformer --n=64
err_says 'no causal form'
json 1 attention --attn=elu1:chunk=16 --n=64 --d=8 --heads=1
check "the spec is shown" test "$(text_of attn)" = elu1:chunk=16
run 0 bench attention --attn=elu1 --n=64 --d=8 --heads=1 --repeats=1 --threads=1
out_says '^elu1 +[0-9.]+ +[0-9.]+'
out_says 'forward ms +backward ms'
out_says 'none has no arithmetic'
out_says '1 thread; peak so far [0-9]+ GFLOP/s'

# --- train: options of the model and the step; weights of a matrix product by hand ---
repeats=3
json 1 train "${tiny[@]}" --attn=elu1 --pos=none --vocab=50
repeats=1
has ms_per_step min_ms_per_step tokens_per_s planned_bytes start_bytes n_layer n_head n_embd block_size batch_size
ordered min_ms_per_step ms_per_step
percent
check "flops: 6 x 26,176 weights, and 14 m E of attention" awk '{ x = $1 * $2 * 1e6
    w = 128 * (6 * (2 * 12 * 32 * 32 + 50 * 32) + 14 * 16 * 16 * 2 * 2); exit !(x > .999 * w && x < 1.001 * w) }' \
  <(paste <(of gflops) <(of ms_per_step))
check "tokens per second" awk '{ x = $1 * $2; exit !(x > 127900 && x < 128100) }' <(paste <(of tokens_per_s) <(of ms_per_step))
text 5000 >t.txt
json 1 train "${tiny[@]}" --data=t.txt --bias --dropout=.1 --grad-accum=2 --optim=sgd --tokenizer=byte
json 1 train "${tiny[@]}" --attn=none
json 1 train "${tiny[@]}" --attn=elu1 --pos=none --vocab=50 --objective=mlm
check "the objective" test "$(text_of objective)" = mlm
check "flops: [MASK] is looked up only" awk '{ x = $1 * $2 * 1e6
    w = 128 * (6 * (2 * 12 * 32 * 32 + 50 * 32) + 14 * 16 * 16 * 2 * 2); exit !(x > .9999 * w && x < 1.0001 * w) }' \
  <(paste <(of gflops) <(of ms_per_step))

# --- decode: a state that grows, and one that does not ---
repeats=2
json 3 decode "${tiny[@]:0:3}" --attn=softmax --positions=1,10,700
has position ms_per_token min_ms_per_token state_bytes prompt_ms prompt_ms_per_token tokens
ordered min_ms_per_token ms_per_token
percent
check "positions" test "$(of position | paste -sd' ')" = "1 10 700"
check "softmax's state grows" awk 'NR > 1 && $1 <= last { exit 1 } { last = $1 }' <(of state_bytes)
json 2 decode "${tiny[@]:0:3}" --attn=elu1 --positions=10,700
check "elu1's state does not" test "$(of state_bytes | sort -u | wc -l)" = 1
check "it is layers x heads x D (E+1) floats" test "$(of state_bytes | head -n 1)" = $((2 * 2 * 16 * 17 * 4))
json 1 decode "${tiny[@]:0:3}" --pos=learned --block-size=32 --positions=20

# --- crossover: points of softmax and the variant, then the result ---
repeats=1
json 7 crossover --attn=elu1 --n=100 --d=8 --heads=1
check "lengths" test "$(of n | paste -sd' ')" = "32 64 100 32 64 100"
check "a result" test "$(grep -c '"forward_from": ".*"both_from": "' out)" = 1
run 0 bench crossover --n=40 --d=8 --heads=1 --repeats=1
out_says '^elu1 +(never up to 40|32 or less|[0-9]+) +(never up to 40|32 or less|[0-9]+)'
check_not "not softmax itself" grep -q '^softmax' out

# --- gemm ---
run 0 bench gemm --json --repeats=1 --threads=2
err_empty
check "JSON" objects out
has m n k threads best_gflops
ordered gflops best_gflops
percent
check "three forms on one thread and two" test "$(text_of form | sort | uniq -c | awk '{ print $1 }' | sort -u | wc -l)" = 1
check "each of both" test "$(of threads | sort -u | paste -sd' ')" = "1 2"

# --- bad input ---
bad() { refused "$1" "$2" bench "${@:3}" && check "nothing printed" test ! -s out; }
bad 2 'which measurement\? .*attention, crossover, decode, gemm or train'
bad 2 'unknown measurement "atention": did you mean attention\? \(known: attention, crossover, decode, gemm, train\)' atention
bad 2 'one measurement at a time, and there are 2: gemm, train' gemm train
bad 2 'bench attention does not read --n-layer' attention --n-layer=2
bad 2 'bench gemm does not read --attn' gemm --attn=elu1
bad 2 'bench decode does not read --batch-size' decode --batch-size=2
bad 2 'bench decode does not read --dropout' decode --dropout=0.1
bad 2 'no next token' decode --objective=mlm
bad 2 'bench train does not read --positions' train --positions=5
bad 2 'unknown attention variant "elu2": did you mean elu1' attention --attn=elu2
bad 2 'attn none adds no attention' attention --attn=none
bad 2 'attn softmax: what is compared with softmax is another' crossover --attn=softmax
bad 2 '--n must be above the shortest length, 32, and is 32' crossover --n=32
bad 2 '--d must be from 1 to 65536, and is 0' attention --d=0
bad 2 'too many numbers' attention --n=16777216 --batch=1048576 --d=65536
bad 2 'n-embd must be a multiple of --n-head 4, and is 130: 128 or 132 would do' train --n-embd=130
bad 2 'positions must be at most 32 whole numbers from 1 to 1000000000.*"10,,5"' decode --positions=10,,5
bad 2 'pos learned has --block-size 64 positions' decode --pos=learned
bad 2 'vocab is for random tokens' train --vocab=5 --data=t.txt
bad 3 'cannot read missing' train --data=missing
bad 6 'needs [0-9.]+ MiB and [0-9.]+ MiB are free' attention --n=16777216 --d=512 --heads=64
bad 6 'need' train --n-layer=1000 --n-embd=16384
bad 6 'a state for 900000[0-9]+ tokens needs [0-9.]+ MiB' decode --n-layer=100 --positions=900000000
finish
