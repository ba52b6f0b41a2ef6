#!/bin/sh
# Installs a build into a fresh prefix and builds this folder's program against what is there,
# through find_package(sow) and through pkg-config.
# Usage: check.sh CMAKE BUILD_FOLDER COMPILER
set -eu
cmake=$1
build=$2
compiler=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$build/consumer
prefix=$work/prefix

rm -rf "$work"
"$cmake" --install "$build" --prefix "$prefix" --component sow

echo "-- through find_package"
"$cmake" -S "$here" -B "$work/build" -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" \
  "-DCMAKE_PREFIX_PATH=$prefix"
"$cmake" --build "$work/build"
"$work/build/consumer"

echo "-- through pkg-config"
pc=$(find "$prefix" -name sow.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir sow)
# shellcheck disable=SC2046
"$compiler" -std=c++20 -Wall -Wextra "$here/main.cc" $(pkg-config --cflags --libs sow) \
  "-Wl,-rpath,$libdir" -o "$work/consumer"
"$work/consumer"
