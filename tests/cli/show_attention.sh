#!/usr/bin/env bash
# show_attention.sh -- the weights of a text as HDF5 and as a picture, and what is refused.
# shellcheck source=tests/cli/_lib.sh
. "$(dirname "$0")/_lib.sh" "$1"

text 20000 >t.txt
args=("${tiny[@]}" --n-layer=3 --max-iters=20 --eval-interval=20 --quiet)
make() { run 0 train "${args[@]}" --data=t.txt --out-dir="$1" "${@:2}"; } # DIR ARG...
make softmax --pos=none
make elu1 --attn=elu1
make mixed --attn=elu1@1+softmax@1/none/softmax --pos=rope
make none --attn=none --pos=none
make mlm --objective=mlm
make byte --tokenizer=byte

prompt='The of a a
that.'
show() { # MODEL ARG...: of the prompt, to MODEL.h5
  run 0 generate --checkpoint="$1/best.h5" --prompt="$prompt" --show-attention="$1.h5" "${@:2}"
}

# --- HDF5 ---
have() { command -v "$1" >/dev/null || { skipped "$1 is not there" && false; }; }
dump() { h5dump -y "$@" | tr -s ' \n' ' '; } # in one line
# The numbers of a dataset, one a line.
numbers() { h5dump -d "$2" -b NATIVE -o numbers "$1" >/dev/null && od -An -v -w4 -t "${3:-f4}" numbers; } # FILE SET [TYPE]
# shellcheck disable=SC2317
shape_is() { dump -H -d "$2" "$1" | grep -qF "( $3 ) /"; } # FILE SET SHAPE

# Whether rows of T numbers add to 1, and nothing is above the diagonal, but for a text read both ways.
# shellcheck disable=SC2317
are_weights() { # FILE SET T [both]
  numbers "$1" "$2" | awk -v T="$3" -v both="${4:-}" '
    { t = int((NR - 1) / T) % T; j = (NR - 1) % T; sum += $1 }
    $1 < 0 || (!both && j > t && $1 != 0) || (both && $1 == 0) { exit bad = 1 }
    j == T - 1 { if (sum < .99999 || sum > 1.00001) exit bad = 1; sum = 0 }
    END { exit bad || NR != 2 * T * T }'
}

for model in softmax elu1 mixed mlm; do
  show $model
  check "$model: the names are told" test "$(cat out)" = "$model.h5
$model.svg"
  err_empty
  have h5dump || continue
  for layer in 0 1 2; do
    if [ $model$layer = mixed1 ]; then
      check_not "$model: no layer_1" h5dump -d /layer_1 $model.h5
      continue
    fi
    check "$model: the shape of layer_$layer" shape_is $model.h5 /layer_$layer '2, 16, 16'
    both=
    [ $model = mlm ] && both=both
    check "$model: layer_$layer are weights" are_weights $model.h5 /layer_$layer 16 $both
  done
  check "$model: 16 tokens" test "$(numbers $model.h5 /tokens d4 | wc -l)" = 16
  check "$model: as a text" grep -qF '"T", "h", "e", " ", "o", "f", " ", "a"' <(dump -d /text $model.h5)
done
if have h5dump; then
  check "the checkpoint" grep -qF '"mixed/best.h5"' <(dump -a /checkpoint mixed.h5)
  check "the options" grep -qF '"elu1@1+softmax@1/none/softmax"' <(dump -a /attn mixed.h5)
  check "the objective" grep -qF '"mlm"' <(dump -a /objective mlm.h5)
  check "the variants of a layer" grep -qF '"elu1", "softmax"' <(dump -a /layer_0/attn mixed.h5)
  check "their heads" grep -qF '{ 1, 1 }' <(dump -a /layer_0/heads mixed.h5)
  check "a layer of one variant" grep -qF '{ "softmax" }' <(dump -a /layer_2/attn mixed.h5)
  check "its heads" grep -qF '{ 2 }' <(dump -a /layer_2/heads mixed.h5)
  # the variant without an order of its own: the first layer sees a token, and not where it stands
  run 0 generate --checkpoint=softmax/best.h5 --prompt=aaaa --show-attention=a.h5
  check "equal tokens have equal weights" near "$(numbers a.h5 /layer_0 | tail -n 1)" .25 1e-6
  run 0 generate --checkpoint=byte/best.h5 --prompt=$'\303\237\377' --show-attention=b.h5
  check "bytes that are no characters" grep -qF '"\xC3", "\x9F", "\xFF"' <(dump -d /text b.h5)
fi

# --- the same again, and in the place of the last ---
cp elu1.h5 was.h5
cp elu1.svg was.svg
show elu1 --threads=1
check "the same file" cmp elu1.h5 was.h5
check "the same picture" cmp elu1.svg was.svg
check "no temporaries" no_temporaries .
show elu1 --quiet
check "--quiet" test ! -s out

# --- the picture ---
# shellcheck disable=SC2317
is_xml() {
  if command -v xmllint >/dev/null; then xmllint --noout "$1"
  else python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$1"; fi
}
if command -v xmllint >/dev/null || python3 -c 'import xml.dom.minidom' 2>/dev/null; then
  run 0 generate --checkpoint=byte/best.h5 --prompt=$'<&>"\t\001\177\303\n' --show-attention=odd
  for svg in softmax.svg mixed.svg mlm.svg odd.svg; do check "it is XML" is_xml $svg; done
else
  skipped "neither xmllint nor python3 is there"
fi
matrices() { grep -c 'class="cells"' "$1"; }
check "a matrix for each head" test "$(matrices softmax.svg)" = 6
check "but of layers without attention" test "$(matrices mixed.svg)" = 4
check "their names" grep -qF '>layer 2 head 1<' mixed.svg
check "and variants" test "$(grep -cE '>(elu1|softmax), largest ' mixed.svg)" = 4
check "tokens at both axes" test "$(grep -c '>T</text>' softmax.svg)" = 12
check "a space can be seen" grep -qF '>·</text>' softmax.svg
check "a new line can be seen" grep -qF '>↵</text>' softmax.svg
check_not "no weight is below 0" grep -qF 'below 0' softmax.svg
run 0 generate --checkpoint=softmax/best.h5 --prompt="$(head -c 50 t.txt)" --show-attention=long.h5
check "a long text has numbers" test "$(grep -c '>49</text>' long.svg)" = 12
check_not "and no tokens" grep -qF '>T</text>' long.svg
run 0 generate --checkpoint=softmax/best.h5 --prompt="$(head -c 256 t.txt)" --show-attention=most.h5
check "256 tokens have a picture" test -s most.svg
run 0 generate --checkpoint=softmax/best.h5 --prompt="$(head -c 257 t.txt)" --show-attention=more.h5
err_says '^note: a picture has at most 256 tokens'
check "257 have the file alone" test -s more.h5 -a ! -e more.svg -a "$(cat out)" = more.h5
run 0 generate --checkpoint=softmax/best.h5 --prompt="$(head -c 257 t.txt)" --show-attention=more.h5 --quiet
err_empty

# --- what is refused ---
refuses() { refused "$1" "$2" generate --checkpoint="$3" --show-attention="$4" "${@:5}"; } # CODE SAYS MODEL PATH...
refuses 2 'give --prompt TEXT' softmax/best.h5 new
refuses 2 'give --prompt TEXT' softmax/best.h5 new --prompt=
refuses 2 'has 33 tokens, and the model reads 32 at a time' elu1/best.h5 new --prompt="$(head -c 33 t.txt)"
run 0 generate --checkpoint=elu1/best.h5 --prompt="$(head -c 32 t.txt)" --show-attention=all.h5
refuses 2 'no attention to show: all 3 layers are none' none/best.h5 new --prompt=The
refuses 3 'the prompt' softmax/best.h5 new --prompt='世'
refuses 2 'a\.svg is the name of a picture' softmax/best.h5 a.svg --prompt=The
check "nothing was written there" test ! -e a.svg.svg
cp softmax/best.h5 model.h5
refuses 2 'model\.h5 is a checkpoint' softmax/best.h5 model.h5 --prompt=The
check "the checkpoint is as it was" cmp softmax/best.h5 model.h5
refuses 1 'saving nowhere/a\.h5 ' softmax/best.h5 nowhere/a.h5 --prompt=The
refuses 1 'no regular file' softmax/best.h5 /dev/null --prompt=The
refuses 6 'need [0-9.]+ MiB.* are free: take a shorter prompt' softmax/best.h5 new \
  --prompt="$(head -c 100000 /dev/zero | tr '\0' a)"
refuses 4 'was not written by this program' softmax.h5 new --prompt=The
mkdir p.svg
refuses 1 'saving p\.svg ' softmax/best.h5 p.h5 --prompt=The
finish
