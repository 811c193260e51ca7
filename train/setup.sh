#!/usr/bin/env bash
# train/setup.sh [tests] [demo] [tsan]: looks for what a build needs (and the tests, the demo, the
# ThreadSanitizer build), and installs what is missing with apt-get.  Nothing missing: nothing is done.
# train/demo.sh and tests/run.sh source this file for its two functions.
set -euo pipefail

# Is openblas.pc the OpenMP flavour of the library?  The others work, and thread by themselves.
lina_openblas_is_openmp() {
    [[ " $(pkg-config --variable=openblas_config openblas) " == *" USE_OPENMP=1 "* ]]
}

lina_python() { # MODULE: is there a Python that has it?
    python3 -c "import $1" 2>/dev/null || /usr/bin/python3 -c "import $1" 2>/dev/null
}

# Can clang build a program with its OpenMP runtime?  The ThreadSanitizer build needs both.
lina_has_tsan() {
    { command -v clang && echo 'int main(void){return 0;}' | clang -fopenmp -fsanitize=thread -x c -o /dev/null -; } \
        >/dev/null 2>&1
}

# Fills `missing` with what was not found, as it is called everywhere, and `packages` with Debian's names.
lina_look() {
    missing=() packages=()
    local need version
    absent() {
        missing+=("$1")
        shift
        packages+=("$@")
    }
    command -v "${CC:-cc}" >/dev/null || absent "a C17 compiler with OpenMP" build-essential
    command -v make >/dev/null || command -v ninja >/dev/null || absent "make (or ninja)" make
    version=$(cmake --version 2>/dev/null | awk 'NR == 1 { split($3, v, "."); print v[1] * 1000 + v[2] }') || true
    ((${version:-0} >= 3021)) || absent "cmake 3.21 or newer" cmake
    if command -v pkg-config >/dev/null; then
        pkg-config --exists openblas || absent "OpenBLAS (its OpenMP flavour)" libopenblas-openmp-dev
        pkg-config --exists hdf5-serial || pkg-config --exists hdf5 || absent "HDF5" libhdf5-dev
        pkg-config --exists jansson || absent "Jansson (JSON)" libjansson-dev
    else
        absent "pkg-config, OpenBLAS (its OpenMP flavour), HDF5, Jansson" \
            pkg-config libopenblas-openmp-dev libhdf5-dev libjansson-dev
    fi
    for need in "$@"; do
        case $need in
        tests)
            pkg-config --exists check 2>/dev/null || absent "Check (unit tests)" check
            command -v gnuplot >/dev/null || absent "gnuplot (charts of a report)" gnuplot-nox
            lina_python jsonschema || absent "Python with jsonschema (results.json as promised)" python3-jsonschema
            command -v h5diff >/dev/null || lina_python h5py || absent "h5diff (checkpoints compared)" hdf5-tools
            ;;
        demo) [[ $(bible -f gen1:1 2>/dev/null </dev/null) == "Ge1:1 "* ]] ||
            absent "bible (the demo's text)" bible-kjv bible-kjv-text ;;
        tsan) lina_has_tsan || absent "clang with its OpenMP runtime" clang libomp-dev ;;
        *) echo "setup.sh: unknown word '$need'; known: tests demo tsan" >&2 && exit 2 ;;
        esac
    done
}

lina_setup() {
    local missing packages as_root=() flavour
    lina_look "$@"
    if ((${#missing[@]})); then
        echo "Missing:" && printf '  %s\n' "${missing[@]}"
        if ! command -v apt-get >/dev/null; then
            cat >&2 <<'EOF'
There is no apt-get here, so please install these yourself. They are called, for example:
  dnf     gcc make cmake pkgconf openblas-devel hdf5-devel jansson-devel check-devel gnuplot python3-jsonschema hdf5
  pacman  base-devel cmake pkgconf openblas hdf5 jansson check gnuplot python-jsonschema
  brew    gcc make cmake pkgconf openblas hdf5 jansson check gnuplot        (with CC=gcc-NN: it has OpenMP)
EOF
            [[ " $* " != *" demo "* ]] || echo "Without bible, train on a text of your own: build/release/bin/train --data FILE" >&2
            exit 1
        fi
        if ((EUID != 0)); then
            command -v sudo >/dev/null || {
                echo "Not root, and no sudo. As root: apt-get install ${packages[*]}" >&2
                exit 1
            }
            as_root=(sudo)
        fi
        as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120)
        echo "Installing with apt-get: ${packages[*]}"
        "${as_root[@]}" update </dev/null || echo "apt-get update complained; trying with the lists there are." >&2
        "${as_root[@]}" install -y --no-install-recommends "${packages[@]}" </dev/null >/dev/null
        hash -r
        lina_look "$@"
        if ((${#missing[@]})); then
            echo "Still missing after the installation:" >&2 && printf '  %s\n' "${missing[@]}" >&2
            exit 1
        fi
    fi
    if ! lina_openblas_is_openmp; then
        flavour=$(pkg-config --variable=libdir openblas)
        cat >&2 <<EOF
Warning: pkg-config's openblas is not the OpenMP flavour (it is in $flavour).
Runs are slower with it. On Debian and Ubuntu choose it with, as root:
  apt-get install libopenblas-openmp-dev
  update-alternatives --config libopenblas.so-$(uname -m)-linux-gnu      (take .../openblas-openmp/...)
  update-alternatives --config libopenblas.so.0-$(uname -m)-linux-gnu    (the same)
EOF
    fi
}

# lina_configure PRESET [-D...]: cmake, from the top folder.  A build folder that was copied from elsewhere is stale.
lina_configure() {
    local cache=build/$1/CMakeCache.txt
    if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache"; then
        rm -rf "build/$1/CMakeCache.txt" "build/$1/CMakeFiles" # what was built from there is built anew
    fi
    cmake --preset "$@"
}

lina_build() { # PRESET [target...]
    local preset=$1 cores
    shift
    cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
    cmake --build --preset "$preset" -j "$cores" ${1:+--target "$@"}
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    lina_setup "$@"
    echo "Everything needed is installed."
fi
