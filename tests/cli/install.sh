#!/usr/bin/env bash
# cmake --install gives programs that run and a library that a program outside the tree can use, in both
# precisions, found by pkg-config.
set -euo pipefail
bin=$1
build=$(dirname "$bin")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if grep -q 'LINA_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
  echo "skipped: a library built with sanitizers is not for others"
  exit 77
fi
cmake --install "$build" --prefix "$work/usr" >/dev/null
"$work/usr/bin/train" --version
"$work/usr/bin/bench" --version
"$work/usr/bin/gradcheck" gelu >/dev/null
cat >"$work/user.c" <<'C'
#include <stdio.h>
#include "autograd/ops.h"
int main(void) { /* y = gelu(1) */
    la_tape *t;
    if (la_tape_create(&t, NULL)) return 1;
    la_node *x = la_input(t, "x", la_shape1(1), 0), *y = la_keep(la_gelu(t, x));
    if (la_tape_seal(t, NULL)) return 2;
    x->x[0] = 1;
    if (la_tape_forward(t)) return 3;
    printf("%.5f\n", (double)y->x[0]);
    la_tape_destroy(t);
    return 0;
}
C
pc=$(dirname "$(find "$work/usr" -name lina.pc)")
for library in lina lina64; do
  # shellcheck disable=SC2046
  PKG_CONFIG_PATH=$pc cc "$work/user.c" -o "$work/user" $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs "$library")
  result=$("$work/user")
  [ "$result" = 0.84134 ] || { echo "$library: gelu(1) is $result"; exit 1; }
done
find "$work/usr" -path '*share/lina/results.schema.json' | grep -q . || { echo "no schema of results.json"; exit 1; }
for tool in train bench; do
  find "$work/usr" -name "lina-$tool.1" | grep -q . || { echo "no man page of $tool"; exit 1; }
done
