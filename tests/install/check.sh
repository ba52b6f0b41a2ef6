#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs a build into a fresh prefix and builds this folder's program against what is there,
# through find_package(sow), shared and static, and through pkg-config; then looks at what older
# standards are told, and at sow as a part of another project.
# Usage: check.sh CMAKE BUILD_FOLDER COMPILER
set -eu
cmake=$1
build=$2
compiler=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$build/consumer
prefix=$work/prefix

rm -rf "$work"
"$cmake" --build "$build" --target sow sow_static
for component in sow static; do
  "$cmake" --install "$build" --prefix "$prefix" --component $component
done

echo "-- through find_package"
"$cmake" -S "$here" -B "$work/build" -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" \
  "-DCMAKE_PREFIX_PATH=$prefix"
"$cmake" --build "$work/build"
"$work/build/consumer"
"$work/build/consumer_static"
if ldd "$work/build/consumer_static" | grep libsow; then
  echo "the static program asks for the shared library" >&2
  exit 1
fi

echo "-- through pkg-config"
pc=$(find "$prefix" -name sow.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir sow)
# shellcheck disable=SC2046
"$compiler" -std=c++20 -Wall -Wextra "$here/main.cc" $(pkg-config --cflags --libs sow) \
  "-Wl,-rpath,$libdir" -o "$work/consumer"
"$work/consumer"

echo "-- as C++17"
if "$compiler" -std=c++17 -fsyntax-only "-I$prefix/include" "$here/main.cc" 2>"$work/cxx17"; then
  echo "C++17 was taken" >&2
  exit 1
fi
grep -m1 error "$work/cxx17" | grep "sow needs C++20"

for fetch in OFF ON; do
  echo "-- as a subproject, FetchContent $fetch"
  "$cmake" -S "$here/parent" -B "$work/parent-$fetch" -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" \
    "-DSOW_SOURCE=$here/../.." "-DSOW_FETCH=$fetch"
  if grep -E "^(CMAKE_BUILD_TYPE|BUILD_SHARED_LIBS):[A-Z]+=." "$work/parent-$fetch/CMakeCache.txt"; then
    echo "the subproject changed the cache" >&2
    exit 1
  fi
  if grep -rl "include/sow" --include=cmake_install.cmake "$work/parent-$fetch"; then
    echo "the subproject installs itself with its parent" >&2
    exit 1
  fi
done
