# shellcheck shell=bash
# _lib.sh -- what the scripts in this folder share.  Source it with the folder of the programs:
#
#   . "$(dirname "$0")/_lib.sh" "$1"
#
# The script is then in a folder of its own, which goes away at the end.  A failed check is told and
# counted, and the script goes on; `finish` ends it.
set -u
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive} LC_ALL=C
bin=$(cd "${1:?the folder of the programs}" && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
chmod 755 .
checks=0 failures=0 code=0 last= patience=180
# Small, so that hundreds of runs take a minute.  The scripts add to it and override it.
# shellcheck disable=SC2034
tiny=(--n-layer=2 --n-embd=32 --n-head=2 --block-size=32 --batch-size=4)

fail() { # WHAT...
  failures=$((failures + 1))
  echo "FAILED: $*"
}

finish() {
  echo "$((checks - failures)) of $checks checks passed"
  [ "$failures" = 0 ]
  exit
}

skipped() { echo "skipped: $*"; }

check() { # WHAT COMMAND...: the command must succeed
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" >/dev/null 2>&1 || fail "$what: $*${last:+ (after $last)}"
}

check_not() { # WHAT COMMAND...: the command must fail
  local what=$1
  shift
  checks=$((checks + 1))
  ! "$@" >/dev/null 2>&1 || fail "$what: not $*${last:+ (after $last)}"
}

# run CODE PROGRAM ARG...: must end with CODE, within $patience seconds.  Leaves the files out and err.  Input
# comes from the file in, if there is one.
run() {
  local want=$1 input=/dev/null
  shift
  last="$*"
  [ -f in ] && input=in
  timeout "$patience" "$bin/$1" "${@:2}" >out 2>err <"$input"
  code=$?
  checks=$((checks + 1))
  [ "$code" = "$want" ] || fail "$last: exit code $code, not $want: $(tail -n 3 err)"
}

# A sanitizer has memory of its own, keeps what was freed, and takes ten times as long.
sanitized() { grep -qE '__(asan|tsan)_init' "$bin/train"; }

# peak PROGRAM ARG...: must end with 0.  Leaves the files out and err, and in $high the most memory it had, KiB.
# shellcheck disable=SC2034
peak() {
  last="$*"
  if [ -x /usr/bin/time ] && /usr/bin/time -f %M -o peak true 2>/dev/null; then
    /usr/bin/time -f %M -o peak "$bin/$1" "${@:2}" >out 2>err </dev/null
    code=$?
    high=$(tail -n 1 peak)
  else # what it has at its end may be missed
    local id now
    "$bin/$1" "${@:2}" >out 2>err </dev/null &
    id=$!
    while kill -0 $id 2>/dev/null; do
      now=$(awk '/^VmHWM/ { print $2 }' /proc/$id/status 2>/dev/null)
      [ -n "$now" ] && high=$now
    done
    wait $id
    code=$?
  fi
  checks=$((checks + 1))
  [ "$code" = 0 ] || fail "$last: exit code $code: $(tail -n 3 err)"
}

out_says() { check "standard output" grep -qE -- "$1" out; }
err_says() { check "standard error ($(head -n 1 err))" grep -qE -- "$1" err; }
err_empty() { check "standard error ($(head -n 1 err))" test ! -s err; }

# refused CODE PATTERN PROGRAM ARG...: ends with CODE and one message that has the extended regular
# expression PATTERN; "new", the --out-dir these tests use, was not made.
refused() {
  rm -rf new
  run "$1" "${@:3}"
  err_says "$2"
  check "one message" test "$(grep -c "^$3: " err)" = 1
  check "nothing was written" test ! -e new
}

# An English-like text, always the same for the same size and seed.
text() { # BYTES [SEED]
  awk -v size="$1" -v seed="${2:-1}" 'BEGIN {
    n = split("the a of and to in that it was his he with is for as had you not be her on at by which have or from this him but all she they were my are me one their so an said them we who would been will no when there if more out up into do any your what has man could other than our some very time upon about may its only now like little then can made should did us such great before must two these see know over much down after first good men own never most old shall day where those came come himself way work life without go make well through being long might how am too say", word, " ")
    for (length_ = 0; length_ < size; length_ += length(line) + 1) {
      line = ""
      for (k = 0; k < 9; k++) {
        seed = (seed * 16807) % 2147483647
        u = seed / 2147483647
        line = line (k ? " " : "") word[1 + int(n * u * u)]
      }
      line = toupper(substr(line, 1, 1)) substr(line, 2) "."
      print line
    }
  }'
}

# step, loss, val_loss, lr and grad_norm of each line of a metrics.jsonl, with all their digits.
fields() { # FILE
  awk 'BEGIN { n = split("step loss val_loss lr grad_norm", name, " ") }
    { line = ""
      for (i = 1; i <= n; i++)
        line = line (i > 1 ? " " : "") (match($0, "\"" name[i] "\": [^,}]+") ? \
               substr($0, RSTART + length(name[i]) + 4, RLENGTH - length(name[i]) - 4) : "-")
      print line }' "$1"
}

# The lines of metrics.jsonl without what the clock and the memory say.
numbers() { # DIR
  sed -E 's/, "(ms|tokens_per_s|elapsed_s|rss_bytes)": [0-9.e+-]+//g' "$1/metrics.jsonl"
}

val_loss() { fields "$1" | awk -v step="$2" '$1 == step { print $3 }'; } # FILE STEP
below() { awk -v a="${1:-nan}" -v b="$2" 'BEGIN { exit !(a + 0 == a && a < b) }'; }
near() { awk -v a="${1:-nan}" -v b="$2" -v by="$3" 'BEGIN { d = a - b; exit !(a + 0 == a && d <= by && d >= -by) }'; }

# Whether metrics.jsonl has the steps 0 to LAST, each once and in order.
each_step_once() { # FILE LAST
  fields "$1" | awk -v last="$2" '$1 != NR - 1 { exit 1 } END { exit !(NR == last + 1) }'
}

# Whether the time in metrics.jsonl never goes back.
time_goes_on() { # FILE
  awk -v was=0 'match($0, /"elapsed_s": [^,}]+/) {
    at = substr($0, RSTART + 13, RLENGTH - 13); n++
    if (at + 0 < was + 0) exit bad = 1
    was = at } END { exit bad || !n }' "$1"
}

# Whether results.json is as its schema says.
follows_schema() { # FILE
  local python
  python=$(python_with jsonschema)
  if [ -z "$python" ]; then
    skipped "the schema: no python3 with jsonschema"
  else
    check "$1 follows its schema" "$python" -c 'import json, sys, jsonschema
jsonschema.validate(*(json.load(open(f)) for f in sys.argv[1:]))' "$1" "$root/train/compare/results.schema.json"
  fi
}

# Whether every line is a JSON object.
json_lines() { # FILE
  if command -v python3 >/dev/null && python3 -c 'import json' 2>/dev/null; then
    python3 -c 'import json, sys
for line in open(sys.argv[1]): assert type(json.loads(line)) is dict' "$1"
  else
    awk '!/^\{"[a-z_]+": [-+.e0-9]+(, "[a-z_]+": [-+.e0-9]+)*\}$/ { exit 1 }' "$1"
  fi
}

no_temporaries() { ! find "$1" -name '*tmp*' | grep -q .; } # DIR
loss_of() { grep -oE 'val loss.*bits/(hidden )?(char|byte)' "$1"; } # FILE: the part of the line of results

# Whether two checkpoints have the same weights and moments, bit for bit.  With neither h5py nor h5diff,
# only what --eval-only prints is compared.
python_with() { # MODULE: prints a Python that has it
  local python
  for python in "${PYTHON:-}" python3 /usr/bin/python3; do
    [ -n "$python" ] && "$python" -c "import $1" 2>/dev/null && echo "$python" && return
  done
}
python_h5py=$(python_with h5py)
same_weights() { # FILE FILE: the same state gives the same bytes; else the arrays decide, if they can be read
  if cmp -s "$1" "$2"; then
    return 0
  elif [ -n "$python_h5py" ]; then
    "$python_h5py" - "$1" "$2" <<'PY'
import sys, h5py
def arrays(path):
    found = {}
    with h5py.File(path, "r") as f:
        f.visititems(lambda name, x: found.__setitem__(name, (x.dtype, x.shape, x[()].tobytes()))
                     if isinstance(x, h5py.Dataset) else None)
    return found
a, b = map(arrays, sys.argv[1:])
assert len(a) > 10 and a == b
PY
  elif command -v h5diff >/dev/null; then
    h5diff "$1" "$2" /params /params && h5diff "$1" "$2" /optim /optim
  else
    return 1
  fi
}

# --- runs in the background ---

# start ARG...: train in the background; its id is in $pid.
start() {
  last="train $*"
  "$bin/train" "$@" >out 2>err </dev/null &
  pid=$!
}

await_step() { # DIR STEP: 0 once the line of that step is written; 1 if the run is over before, or ten minutes
  local until=$((SECONDS + 600)) lines
  while kill -0 "$pid" 2>/dev/null && [ "$SECONDS" -lt "$until" ]; do
    [ -f "$1/metrics.jsonl" ] && mapfile -t lines <"$1/metrics.jsonl" && [ ${#lines[@]} -gt "$2" ] && return 0
    sleep .005
  done
  return 1
}

# stop_at SIGNAL DIR STEP ARG...: train --out-dir DIR ARG... gets the signal soon after that step.  A run
# that was faster than the signal is done again, from the copy DIR.was if there is one.
stop_at() {
  local signal=$1 dir=$2 step=$3 try
  shift 3
  for try in 1 2 3 4; do
    start --out-dir "$dir" "$@"
    await_step "$dir" "$step" && kill -s "$signal" "$pid"
    wait "$pid" 2>/dev/null
    code=$?
    [ "$code" != 0 ] && return
    [ "$try" = 4 ] && break
    rm -rf "$dir"
    [ -d "$dir.was" ] && cp -r "$dir.was" "$dir"
    [ "$step" -gt 40 ] && step=$((step - 20))
  done
  fail "$last was over before SIG$signal came"
}
