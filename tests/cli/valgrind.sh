#!/usr/bin/env bash
# valgrind.sh -- the programs under valgrind's memcheck: no read of what was never written or was freed, no leak.
# The processor that valgrind shows has no AVX-512, so the kernels are those of AVX2.
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 77; }
sanitized && { echo "skipped: a build with a sanitizer does not run under valgrind"; exit 77; }

# The programs start once more by themselves unless OMP_WAIT_POLICY is set (train/tool.c); _lib.sh sets it.
checked() { # CODE PROGRAM ARG...
  local want=$1
  shift
  last="valgrind $*"
  timeout 1500 valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect,possible \
    --errors-for-leak-kinds=definite,indirect,possible --suppressions="$root/tests/valgrind.supp" \
    --child-silent-after-fork=yes "$bin/$1" "${@:2}" >out 2>err </dev/null
  code=$?
  check "exit code $code, not $want: $(grep -m 3 '^==' err | tr '\n' ' ')" test "$code" = "$want"
  check_not "nothing is reported" grep -q '^==' err
}

text 3000 >t.txt
model=(--n-layer=1 --n-embd=16 --n-head=2 --batch-size=2 --eval-iters=1 --quiet)
args=("${model[@]}" --block-size=16 --data=t.txt)
checked 0 train "${args[@]}" --max-iters=2 --out-dir=short
[ -n "${LINA_LONG:-}" ] || finish

checked 0 train --resume --max-iters=4 --out-dir=short
checked 0 generate --checkpoint=short/best.h5 --tokens=20 --prompt=The
checked 0 generate --checkpoint=short/best.h5 --prompt=The --show-attention=said.h5
for attn in elu1 double-softmax cosine favor:m=8 window:w=4 lsh:buckets=4,c=4; do
  checked 0 train "${args[@]}" --attn="$attn" --max-iters=2 --grad-accum=2 --dropout=.1 --short-conv=2 --sample-every=2 --csv \
    --tensorboard --out-dir="$attn"
  checked 0 generate --checkpoint="$attn/last.h5" --tokens=20
done
checked 0 train "${args[@]}" --attn=linformer --objective=mlm --recompute --optim=sgd --max-iters=2 --out-dir=mlm
checked 0 train "${args[@]}" --tokenizer=byte --max-iters=2 --out-dir=bytes
checked 0 train "${model[@]}" --task=mqar:pairs=2 --max-iters=2 --out-dir=task

# Ways out that are not the usual one.
checked 5 train "${args[@]}" --optim=sgd --lr=100 --min-lr=100 --grad-clip=0 --warmup-iters=0 --max-iters=50 \
  --on-nonfinite=rollback --save-interval=1 --out-dir=wild
checked 2 train "${args[@]}" --attn=sofmax
checked 2 train "${args[@]}" --max-iters=2 --out-dir=short
checked 3 train "${args[@]}" --data=missing.txt
checked 3 train --resume --out-dir=short --data=/dev/zero
printf 'no checkpoint' >bad.h5
checked 4 generate --checkpoint=bad.h5
head -c 3000 short/last.h5 >cut.h5
checked 4 generate --checkpoint=cut.h5
tail -c +513 short/last.h5 >foreign.h5
checked 0 train "${args[@]}" --init-from=foreign.h5 --trust-file --max-iters=1 --out-dir=foreign
checked 3 generate --checkpoint=short/best.h5 --prompt=€
checked 6 train "${args[@]}" --n-embd=65536 --n-layer=1000
finish
