# cmake -DROOT=<source dir> -P tests/layering.cmake     (ctest runs it)
#
# An include of another folder points downwards; some headers have one owner; nobody includes a .c file or
# goes around the folders with `..`.  First the rules are tried on lines that they must refuse or let pass.
cmake_minimum_required(VERSION 3.21)

set(folders tensor autograd layers optim data train)
set(may_use_tensor   tensor)
set(may_use_autograd tensor autograd)
set(may_use_layers   tensor autograd layers)
set(may_use_optim    tensor autograd optim)
set(may_use_data     tensor data)
set(may_use_train    tensor autograd layers optim data train)

set(owned omp blas hdf5 h5_io tape chunk tile isa)
set(header_omp  "^omp\\.h$")
set(header_blas "^(.*/)?(cblas|f77blas|lapacke|openblas_config)\\.h$")
set(header_hdf5 "^(.*/)?(hdf5.*|H5.*)\\.h$")
set(header_h5_io "(^|/)h5_io\\.h$")
set(header_tape "(^|/)tape_impl\\.h$")
set(header_chunk "_chunk\\.h$")
set(header_tile "_tile\\.h$")
set(header_isa "(^|/)vec_isa\\.h$")
set(owner_chunk autograd/ops/causal_linear_chunk.h autograd/ops/causal_linear.c autograd/ops/full_linear.c autograd/ops/causal_exp_linear.c
    autograd/ops/sparse_softmax.c)
set(owner_tile autograd/attention/softmax.c autograd/attention/linformer.c)
set(owner_isa tensor/vec_kernels.c tensor/map_kernels.c tensor/tile_kernels.c tensor/gemm_kernels.c)
set(owner_omp  tensor/parallel.c)
set(owner_blas tensor/blas.c)
set(owner_hdf5 train/h5_io.h)
set(owner_h5_io train/h5_io.c train/checkpoint.c train/decode.c train/show.c)
set(owner_tape autograd/tape.c autograd/seal.c autograd/schedule.c autograd/lives.c autograd/place.c autograd/replay.c
    autograd/dump.c)

# What is wrong with this line of this file: a sentence, or nothing.
function(complaint file line out)
  set(${out} "" PARENT_SCOPE)
  if(line MATCHES "^[ \t]*#[ \t]*pragma[ \t]+omp[ \t]+(.*)")
    if(NOT CMAKE_MATCH_1 MATCHES "^simd" AND NOT file IN_LIST owner_omp)
      set(${out} "${file}: only ${owner_omp} may start threads: ${line}" PARENT_SCOPE)
    endif()
    return()
  endif()
  if(NOT line MATCHES "^[ \t]*#[ \t]*include(_next)?[ \t]*([<\"])([^>\"]*)[>\"]")
    set(${out} "${file}: an include must name its header: ${line}" PARENT_SCOPE)
    return()
  endif()
  set(quote "${CMAKE_MATCH_2}")
  set(header "${CMAKE_MATCH_3}")
  string(REGEX REPLACE "/.*" "" folder "${file}")
  string(REGEX REPLACE "/.*" "" top "${header}")
  foreach(what IN LISTS owned)
    if(header MATCHES "${header_${what}}" AND NOT file IN_LIST owner_${what})
      list(JOIN owner_${what} ", " owners)
      set(${out} "${file}: only ${owners} may include ${header}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  if(header MATCHES "\\.\\.")
    set(${out} "${file}: write the folder and not `..`: ${header}" PARENT_SCOPE)
  elseif(header MATCHES "\\.c$")
    set(${out} "${file}: may not include the source ${header}" PARENT_SCOPE)
  elseif(top IN_LIST folders AND header MATCHES "/")
    if(NOT top IN_LIST may_use_${folder})
      set(${out} "${file}: ${folder}/ may not include ${header}" PARENT_SCOPE)
    endif()
  elseif(quote STREQUAL "\"")
    set(${out} "${file}: write the folder before ${header}" PARENT_SCOPE)
  endif()
endfunction()

# --- the rules themselves: file, line ---
set(must_refuse
    "tensor/arena.c|#include \"autograd/tape.h\""
    "tensor/arena.c|  #  include<autograd/tape.h>"
    "autograd/tape.c|#include \"layers/layers.h\""
    "autograd/ops/add.c|#include \"optim/optim.h\""
    "layers/lm.c|#include \"optim/optim.h\""
    "layers/lm.c|#include \"data/corpus.h\""
    "optim/sgd.c|#include \"layers/layers.h\""
    "data/corpus.c|#include \"autograd/tape.h\""
    "optim/optim.c|#include \"train/config.h\""
    "autograd/tape.c|#include \"../layers/layers.h\""
    "autograd/tape.c|#include \"./../layers/layers.h\""
    "autograd/tape.c|#include \"tensor/../layers/layers.h\""
    "autograd/replay.c|#include <omp.h>"
    "tensor/parallel.h|#include <omp.h>"
    "autograd/ops/linear.c|#include <cblas.h>"
    "autograd/ops/linear.c|#include <openblas/cblas.h>"
    "data/corpus.c|#include <hdf5.h>"
    "train/trainer.c|#include <hdf5/serial/hdf5.h>"
    "train/trainer.c|#include \"H5public.h\""
    "train/trainer.c|#include \"train/h5_io.h\""
    "train/import.c|#include \"train/h5_io.h\""
    "autograd/trial.c|#include \"autograd/tape_impl.h\""
    "autograd/tape.c|#include \"tape.h\""
    "autograd/tape.c|#include \"autograd/seal.c\""
    "autograd/tape.c|#include HEADER"
    "autograd/ops/add.c|#pragma omp parallel for"
    "autograd/ops/add.c| # pragma omp task")
set(must_pass
    "tensor/parallel.c|#include <omp.h>"
    "tensor/parallel.c|#pragma omp parallel for schedule(dynamic, 1)"
    "tensor/vec_kernels.c|#pragma omp simd reduction(+ : s)"
    "tensor/blas.c|#include <cblas.h>"
    "train/h5_io.h|#include <hdf5.h>"
    "train/checkpoint.c|#include \"train/h5_io.h\""
    "autograd/seal.c|#include \"autograd/tape_impl.h\""
    "autograd/trial.c|#include \"autograd/ops.def\""
    "train/trainer.c|#include \"layers/layers.h\" /* a comment */"
    "data/corpus.c|#include <sys/stat.h>"
    "tensor/arena.c|#include <stdlib.h>")
foreach(example IN LISTS must_refuse must_pass)
  string(REGEX REPLACE "\\|.*" "" file "${example}")
  string(REGEX REPLACE "^[^|]*\\|" "" line "${example}")
  complaint("${file}" "${line}" said)
  if(example IN_LIST must_refuse AND said STREQUAL "")
    message(SEND_ERROR "layering.cmake does not refuse ${line} in ${file}")
  elseif(example IN_LIST must_pass AND NOT said STREQUAL "")
    message(SEND_ERROR "layering.cmake refuses ${line} in ${file}: ${said}")
  endif()
endforeach()

# --- the sources ---
set(lines_seen 0)
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.c ${ROOT}/${folder}/*.h)
  if(NOT files)
    message(SEND_ERROR "there is no source in ${ROOT}/${folder}")
  endif()
  foreach(file IN LISTS files)
    file(STRINGS ${ROOT}/${file} lines REGEX "^[ \t]*#[ \t]*(include|pragma[ \t]+omp)")
    foreach(line IN LISTS lines)
      math(EXPR lines_seen "${lines_seen} + 1")
      complaint("${file}" "${line}" said)
      if(NOT said STREQUAL "")
        message(SEND_ERROR "${said}")
      endif()
    endforeach()
  endforeach()
endforeach()
if(lines_seen LESS 100)
  message(SEND_ERROR "only ${lines_seen} includes were found below ${ROOT}")
endif()
message(STATUS "${lines_seen} includes and pragmas point the right way")
