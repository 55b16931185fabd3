#!/bin/sh
# Configures and builds one folder; configures again only if an option or the compiler changed.
#
#   tools/build.sh FOLDER [-DOPTION=VALUE...]
#
# WANTED lists the CMake targets to build; by default all. CC chooses the compiler. The output of
# CMake's configuration is kept in FOLDER/configure.log.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
. ./.setup

folder=$1
shift
mkdir -p "$folder"
key="$PWD $GENERATOR ${CC:-} ${CFLAGS:-} $PYTHON $*"
if [ ! -f "$folder/CMakeCache.txt" ] || [ "$key" != "$(cat "$folder/.configured" 2>/dev/null)" ]; then
  rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles" "$folder/.configured"
  if ! "$CMAKE" -S . -B "$folder" -G "$GENERATOR" -DPython_EXECUTABLE="$PYTHON" \
    ${CC:+-DCMAKE_C_COMPILER="$CC"} "$@" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log"
    exit 1
  fi
  printf '%s\n' "$key" >"$folder/.configured"
fi
"$CMAKE" --build "$folder" ${WANTED:+--target $WANTED} --parallel "$(nproc 2>/dev/null || echo 2)"
