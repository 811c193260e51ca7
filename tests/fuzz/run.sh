#!/bin/bash
# tests/fuzz/run.sh [SECONDS] [TARGET...]      each fuzz target (or these) for so many seconds: 60
#
# Builds the targets with libFuzzer, AddressSanitizer and UBSan into build/fuzz (clang and its
# compiler-rt).  A corpus begins as the seeds and is thrown away; an input that is a finding stays in
# build/fuzz/findings/TARGET.  Once the parser is right, it becomes a seed: seeds/TARGET/.
#
# HDF5 crashes and loops on some inputs of the target image, which decodes in its own process; there
# libFuzzer goes on in a new one.  Where the innermost frame that is HDF5's or ours is ours, that is a
# finding.  Each such input, whoever's it is, is then opened as the programs do it, which must end with
# a sentence; if not, that is a finding too.  The others stay in findings/image/contained.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/fuzz
seconds=${1:-60}
shift || true
[ $# -gt 0 ] || set -- options config spec tokenizer checkpoint flat prompt results image

build() {
    cmake -S "$root" -B "$build" -DCMAKE_C_COMPILER=clang -DLINA_FUZZ=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
          -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g" &&
        cmake --build "$build" -j "$(nproc)" --target "${@/#/fuzz_}"
}
build "$@" contained >"$build.log" || { cat "$build.log"; exit 1; }

corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
failed=0

search() { # TARGET ARTIFACTS OPTION...: the status is libFuzzer's
    local target=$1 artifacts=$2
    shift 2
    nice "$build/bin/fuzz_$target" -max_total_time="$seconds" -max_len=20480 -print_final_stats=1 \
         -artifact_prefix="$artifacts/" "$@" "$corpus/$target" "$here/seeds/$target" >"$findings/log" 2>&1
}

figures() { # TARGET: executions and edges, from lines of either kind of log
    local executions edges
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p; s/^#\([0-9]*\): cov: .*/\1/p' "$findings/log" | tail -n 1)
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$findings/log" | tail -n 1)
    printf '%-12s %10s executions, %6s edges, ' "$1" "${executions:-0}" "${edges:-0}"
}

finding() { # WHERE
    failed=1
    echo "a FINDING: $1"
    grep -m 1 -E 'ERROR|SUMMARY|runtime error|does not hold' "$1" || true
}

# Whose the innermost frame is that is HDF5's or ours, in what one run has printed: hdf5, ours, none.
whose() { # FILE
    awk -v root="$root/" '/^ +#[0-9]+ 0x/ {
        if (/libhdf5/) { print "hdf5"; found = 1; exit }
        if (index($0, root "train/") || index($0, root "data/") || index($0, root "tensor/") ||
            index($0, root "autograd/") || index($0, root "optim/") || index($0, root "tests/"))
          { print "ours"; found = 1; exit }
      } END { if (!found) print "none" }' "$1"
}

# What the search for images has left: sorted by whose it is, and opened as the programs open it.
sort_images() { # ARTIFACTS
    local input owner ours=0 hdf5=0 gone=0 uncontained=0
    mkdir -p "$findings/contained"
    for input in "$1"/*; do
        [ -e "$input" ] || continue
        owner=none
        "$build/bin/fuzz_image" -timeout=5 "$input" >"$corpus/run" 2>&1 || owner=$(whose "$corpus/run")
        case $owner in
        hdf5) hdf5=$((hdf5 + 1)) ;;
        ours) ours=$((ours + 1)) && cp "$corpus/run" "$findings/$(basename "$input").log" ;;
        none) gone=$((gone + 1)) ;;
        esac
        # the limit on computing is the reader's as well
        if ! (ulimit -S -t 5 && "$build/bin/fuzz_contained" "$input") >"$corpus/run" 2>&1; then
            uncontained=$((uncontained + 1))
            cp "$corpus/run" "$findings/$(basename "$input").log"
            owner=ours
        fi
        if [ "$owner" = ours ]; then mv "$input" "$findings/"; else mv "$input" "$findings/contained/"; fi
    done
    echo "crashes and loops: $hdf5 of HDF5's, $gone that do not come again, $ours of ours; $uncontained not contained"
    [ $((ours + uncontained)) = 0 ] || finding "$findings"
}

# Edges of what takes an image apart and checks it, as reached by the images that do not crash.
decoded() {
    "$build/bin/fuzz_image" -runs=0 -print_coverage=1 -max_len=20480 "$corpus/image" "$here/seeds/image" 2>&1 |
        sed -n 's/^COVERED_FUNC: hits: [0-9]* edges: \([0-9]*\)\/\([0-9]*\) .*train\/\(decode\|flat\|checkpoint\|import\)\.c:.*/\1 \2/p' |
        awk '{ reached += $1; all += $2 } END { printf "%16d of %d edges of the functions of decode, flat, checkpoint and import that are reached\n", reached, all }'
}

for target; do
    findings=$build/findings/$target
    mkdir -p "$findings" "$corpus/$target"
    status=0
    if [ "$target" = image ]; then
        mkdir -p "$corpus/found"
        export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 # HDF5 leaks, and asks for any size
        search image "$corpus/found" -timeout=5 -fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 || status=$?
        figures image
        sort_images "$corpus/found"
        decoded
        unset ASAN_OPTIONS
        continue
    fi
    search "$target" "$findings" -timeout=20 || status=$?
    figures "$target"
    if [ $status = 0 ]; then echo "no finding"; else finding "$findings/log"; fi
done
exit $failed
