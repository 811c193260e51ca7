#!/usr/bin/env bash
# trackers.sh -- metrics.csv and TensorBoard's event files have the numbers of metrics.jsonl, each step once,
# also when a run was stopped, killed or short of room.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 40000 >t.txt
base=("${tiny[@]}" --data=t.txt --max-iters=200 --eval-interval=50 --lr=3e-3 --quiet=off)
both=("${base[@]}" --csv --tensorboard)

cat >compare.py <<'PY'
"""compare.py csv|events DIR [FROM]: against DIR/metrics.jsonl, with all digits; the events of steps from FROM on."""
import csv, glob, json, struct, sys
what, run, first = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
lines = [json.loads(line, parse_float=str, parse_int=str) for line in open(run + "/metrics.jsonl")]

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8): crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff

def unmasked(x):
    x = (x - 0xa282ead8) & 0xffffffff
    return (x >> 17 | x << 15) & 0xffffffff

def records(path):
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        n, head = struct.unpack_from("<QI", data, at)
        assert unmasked(head) == crc32c(data[at:at + 8]), (path, at)
        body = data[at + 12:at + 12 + n]
        assert unmasked(*struct.unpack_from("<I", data, at + 12 + n)) == crc32c(body), (path, at)
        yield body
        at += n + 16

def fields(data):
    """(number, value) of each field of a message."""
    at = 0
    def varint():
        nonlocal at
        x = shift = 0
        while True:
            byte = data[at]; at += 1
            x |= (byte & 127) << shift; shift += 7
            if byte < 128: return x
    while at < len(data):
        key = varint()
        if key & 7 == 0: yield key >> 3, varint(); continue
        n = {1: 8, 5: 4}.get(key & 7) or varint()
        assert key & 7 in (1, 2, 5) and at + n <= len(data)
        raw = data[at:at + n]; at += n
        yield key >> 3, struct.unpack({1: "<d", 5: "<f"}[key & 7], raw)[0] if key & 7 != 2 else raw

if what == "csv":
    text = open(run + "/metrics.csv", newline="").read()
    assert text.endswith("\n") and "\r" not in text
    rows = list(csv.DictReader(text.splitlines()))
    assert len(text.splitlines()) == len(lines) + 1 == len(rows) + 1, (len(rows), len(lines))
    for row, line in zip(rows, lines):
        assert None not in row and set(line) <= set(row), (row, line)
        assert row == {name: line.get(name, "") for name in row}, (row, line)
else:
    tags = {"loss": "loss/train", "val_loss": "loss/val", "lr": "lr", "grad_norm": "grad_norm", "tokens_per_s":
            "tokens_per_s", "accuracy": "accuracy/train", "val_accuracy": "accuracy/val"}
    found, clock = {}, 0
    for number, path in enumerate(sorted(glob.glob(run + "/events.out.tfevents.*"))):
        for i, body in enumerate(records(path)):
            event = dict(fields(body))
            step = event.get(2, 0)
            assert event[1] >= clock and 1.6e9 < event[1], event  # wall_time
            clock = event[1]
            if i == 0: assert event[3] == b"brain.Event:2" and len(event) == 2
            elif 7 in event:  # what TensorBoard does with a START
                assert i == 1 and dict(fields(event[7])) == {1: 1}
                found = {at: x for at, x in found.items() if at[1] < step}
            else:
                assert i > 1 or number == 0 and first == 0, "a resumed run says START"
                for field, value in fields(event[5]):
                    value = dict(fields(value))
                    at = value[1].decode(), step
                    assert field == 1 and at not in found, at
                    found[at] = value[2]
    want = {(tags[name], int(line["step"])): struct.unpack("<f", struct.pack("<f", float(x)))[0]
            for line in lines for name, x in line.items() if name in tags and int(line["step"]) >= first}
    assert len(want) > 4 * (len(lines) - first) - 10
    differ = [(at, found.get(at), want.get(at)) for at in sorted(found.keys() | want.keys()) if found.get(at) != want.get(at)]
    assert not differ, differ[:5]
PY
python=$(command -v python3) || skipped "the contents of the files: no python3"
compare() { # NAME csv|events DIR [FROM]
  [ -z "$python" ] && return
  "$python" compare.py "${@:2}" >compare.out 2>&1
  local result=$?
  check "$1: the numbers of $2: $(tail -n 1 compare.out)" test $result = 0
}

whole() { # NAME DIR LAST FILES [FROM]: both files have what metrics.jsonl has; FILES event files
  check "$1: each step once" each_step_once "$2/metrics.jsonl" "$3"
  check "$1: a line for each, and the header" test "$(wc -l <"$2/metrics.csv")" = $(($3 + 2))
  check "$1: $4 event files" test "$(find "$2" -name 'events.out.tfevents.*' | wc -l)" = "$4"
  check "$1: no temporary is left" no_temporaries "$2"
  compare "$1" csv "$2"
  compare "$1" events "$2" "${5:-0}"
}

# --- a run to its end ---
run 0 train "${both[@]}" --out-dir=ref
err_empty
whole "a run" ref 200 1
check "the header" grep -q '^step,loss,accuracy,val_loss,.*lr,grad_norm,.*rss_bytes$' ref/metrics.csv
run 0 train "${base[@]}" --out-dir=without
check "usually there are none" test "$(find without -name '*.csv' -o -name '*tfevents*' | wc -l)" = 0
fields ref/metrics.jsonl >b
fields without/metrics.jsonl >a
check "they change no number" cmp a b

# --- stopped, killed, resumed: asked for once, they go on ---
stop_at TERM term 70 "${both[@]}"
check "exit code of SIGTERM" test "$code" = 143
run 0 train --resume --out-dir=term
whole SIGTERM term 200 2
fields term/metrics.jsonl >a
check "SIGTERM: the same numbers" cmp a b

stop_at KILL kill 130 "${both[@]}" --save-interval=20
check "exit code of SIGKILL" test "$code" = 137
printf '131,2.5,,0.0' >>kill/metrics.csv # as if the kill had come within a line
cp kill/metrics.csv kill/metrics.csv.tmp
cp -r kill kill.was
stop_at KILL kill 150 --resume --quiet
run 0 train --resume --out-dir=kill
whole "SIGKILL, twice" kill 200 3
fields kill/metrics.jsonl >a
check "SIGKILL: the same numbers" cmp a b

run 0 train --resume=best --out-dir=term --max-iters=210
whole "from an earlier step" term 210 3

# --- stopped within an evaluation: the loss is added later ---
text 600000 3 >long.txt
start "${both[@]}" --max-iters=60 --eval-interval=30 --val-data=long.txt --out-dir=eval
await_step eval 29
sleep .05
kill -s TERM "$pid"
wait "$pid"
check "it was within the evaluation" test "$(fields eval/metrics.jsonl | tail -n 1 | cut -d' ' -f1,3)" = "30 -"
check "no val_loss yet" grep -qE '^30,[^,]+,,,' eval/metrics.csv
run 0 train --resume --out-dir=eval
whole "stopped in an evaluation" eval 60 2
check "val_loss was added" grep -qE '^30,[^,]+,,[0-9.]+,' eval/metrics.csv

# --- asked for later, and given up ---
run 0 train "${base[@]}" --max-iters=50 --lr-decay-iters=200 --out-dir=later
run 0 train --resume --out-dir=later --max-iters=100 --csv --tensorboard
out_says '^changed on resuming: csv was off, is on$'
whole "asked for later" later 100 1 51
cp later/metrics.csv csv.was
run 0 train --resume --out-dir=later --max-iters=120 --csv=off --tensorboard=off
check "given up: metrics.csv stays as it was" cmp csv.was later/metrics.csv
check "given up: no new event file" test "$(find later -name '*tfevents*' | wc -l)" = 1

# --- --overwrite removes them ---
cp -r ref over
echo precious >over/events.txt
cp ref/metrics.csv over/metrics.csv.tmp
run 0 train "${base[@]}" --max-iters=20 --out-dir=over --overwrite
check "--overwrite removes both" test "$(find over -name '*.csv' -o -name '*tfevents*' | wc -l)" = 0
check "--overwrite leaves no temporary" no_temporaries over
check "--overwrite leaves other files" grep -q precious over/events.txt
run 0 train "${both[@]}" --max-iters=20 --out-dir=over --overwrite
run 0 train "${both[@]}" --max-iters=30 --out-dir=over --overwrite
whole "--overwrite" over 30 1
run 0 train "${both[@]}" --out-dir=dry --dry-run
check "--dry-run writes none" test ! -e dry

# --- no room: one warning for each file, and training goes on ---
last="train with little room"
(
  trap '' XFSZ
  ulimit -f 8
  "$bin/train" "${both[@]}" --quiet --out-dir=full >out 2>err
)
check "its exit code" test $? = 1
err_says '^train: the run ended at step 200, which could NOT be saved$'
check "no torn line of metrics" json_lines full/metrics.jsonl
for file in metrics.jsonl metrics.csv 'events\.out\.tfevents\.[^ ]*'; do
  check "one warning of $file" test "$(grep -cE "^warning: cannot write full/$file: .*; training goes on\$" err)" = 1
  check "and it is said that its end is missing" grep -qE "^warning: the end of full/$file is missing: File too large\$" err
done
out_says '^done: step 200 '
mkdir -p blocked/metrics.csv
cp ref/last.h5 ref/metrics.jsonl blocked
run 1 train --resume --out-dir=blocked
err_says 'cannot write blocked/metrics\.csv: '
check "blocked: no temporary is left" no_temporaries blocked
finish
