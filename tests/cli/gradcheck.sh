#!/usr/bin/env bash
# gradcheck.sh -- the program gradcheck: every operation and variant passes, names, --explain.
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

run 0 gradcheck
err_empty
cp out all
table() { sed -nE 's/^X\(([a-z0-9_]+).*/\1/p' "$root/autograd/$1"; }
passes() { check "$1${2-} passes" grep -qE "^${1//-/[-_]}${2-} +[0-9]+ +[0-9.]+e-[0-9]+ +pass$" all; }
ops=$(for op in $(table ops.def); do # those without cases are engines of variants, and covered by these
  grep -q '\.cases = ' "$root/autograd/ops/$op.c" && echo "$op"
done)
variants=$(table attention/attn.def | tr _ - | grep -vx none)
check "names in the tables" test "$(echo "$ops $variants" | wc -w)" -ge 35
for name in $ops; do passes "$name"; done
for name in $variants; do
  [ "$name" = linformer ] || passes "$name"
  passes "$name" " both ways"
done
check "none has no gradient of its own" test "$(grep -c '^none' all)" = 0
check_not "no failure" grep -q FAIL all
check "the last line" grep -qE '^all below 1e-0?7$' all
check "each line once" test "$(cut -c1-44 all | sort | uniq -d | wc -l)" = 0

run 0 gradcheck elu1 gelu
check "two names, two lines" test "$(grep -c pass out)" = 2
grep '^elu1 ' all >one
check "always the same numbers" grep -qxFf one out

run 0 gradcheck --json elu1 gelu
err_empty
check "two names, two lines and nothing else" test "$(wc -l <out)" = 2
check "each a JSON object" grep -qE '^\{"name": "elu1", "cases": [0-9]+, "worst": [0-9.]+e-[0-9]+, "pass": true\}$' out
run 2 gradcheck --json --explain elu1
err_says '--explain prints a text'

run 0 gradcheck --explain elu1
err_empty
out_says '^elu1$'
out_says 'phi\(x\) = elu\(x\) \+ 1'
out_says 'Katharopoulos'
out_says '^cases'
out_says 'in two parts'
out_says 'causal_linear'
for name in layernorm head_linear softmax double-softmax favor window "linformer both ways"; do
  run 0 gradcheck --explain "$name"
  check "--explain $name" test "$(wc -l <out)" -gt 8
done

run 2 gradcheck elu2
err_says 'unknown.*"elu2".*did you mean elu1\?'
run 2 gradcheck --explain sofmax
err_says 'unknown.*"sofmax".*did you mean softmax\?'
run 2 gradcheck --explian=elu1
err_says 'did you mean --explain\?'
check_not "no table for a wrong option" grep -q pass out
for option in -h --help --help-all --version; do
  run 0 gradcheck "$option"
  check "$option prints" test -s out
  err_empty
done
finish
