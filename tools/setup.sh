#!/bin/sh
# Finds or installs what a build needs, and writes what it found to .setup (CMAKE, GENERATOR,
# PYTHON, HAVE_TESTS). Called by every make target; does nothing if .setup is still valid
# (`make setup` searches again).
#
#   1. Installed programs are used; if nothing is missing, the network is not used.
#   2. Missing ones come from apt if that is allowed (root, or sudo without a password).
#   3. Otherwise cmake comes from PyPI, into .venv.
#   4. Otherwise a message says what to install.
#
# SETUP_NO_APT=1: never call apt.   SETUP_NO_VENV=1: use the system's Python as it is.
# SETUP_NO_NET=1: neither apt nor PyPI.   PYTHON=path: this interpreter.
set -u
cd "$(dirname "$0")/.." || exit 1

wanted=${PYTHON:-}
key=$(cat tools/setup.sh tools/requirements.txt | cksum | cut -d' ' -f1)-$wanted-${SETUP_NO_VENV:-}
if [ -f .setup ] && [ "${1:-}" != --again ]; then
  . ./.setup
  if [ "$KEY" = "$key" ] && [ -x "$CMAKE" ] && [ -x "$PYTHON" ]; then exit 0; fi
fi

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

may_install() {
  [ -z "${SETUP_NO_APT:-}${SETUP_NO_NET:-}" ] && command -v apt-get >/dev/null || return 1
  [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

apt_updated=
install() { # packages...: true if all are installed afterwards
  may_install || return 1
  root=$([ "$(id -u)" = 0 ] || echo "sudo -n")
  options="-qq -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o DPkg::Lock::Timeout=120"
  if [ -z "$apt_updated" ]; then
    say "apt-get update"
    $root env DEBIAN_FRONTEND=noninteractive apt-get $options update >/dev/null 2>&1
    apt_updated=yes
  fi
  say "apt-get install $*"
  $root env DEBIAN_FRONTEND=noninteractive apt-get $options install -y --no-install-recommends \
    "$@" >.setup.log 2>&1 </dev/null
  status=$?
  [ $status = 0 ] || tail -3 .setup.log >&2
  rm -f .setup.log
  return $status
}

# ---- a C compiler ----
cc=${CC:-cc}
probe() {
  printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' |
    $cc -x c -std=c17 -o .setup.probe - 2>/dev/null && rm -f .setup.probe
}
probe || install gcc libc6-dev || true
probe || fail "the C compiler \`$cc\` is missing or does not know C17" \
  "install gcc (8 or newer) or clang (7 or newer)"

# ---- Python ----
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
find_python() {
  for p in $wanted python3 python3.11 python3.12 python3.13 python3.14; do
    if command -v "$p" >/dev/null && new_enough "$p"; then
      "$p" -c 'import sys; print(sys.executable)' # not a shim
      return
    fi
  done
}
python=$(find_python)
[ -n "$python" ] || { install python3 python3-venv python3-dev && python=$(find_python); }
[ -n "$python" ] || { install python3.11 python3.11-venv python3.11-dev && python=$(find_python); }
[ -n "$python" ] ||
  fail "Python 3.11 or newer is needed; found: $(python3 --version 2>&1 || echo none)" \
  "install python3.11, python3.11-venv and python3.11-dev, or set PYTHON=/path/to/python3.11"
print_version='import sys; print("%d.%d" % sys.version_info[:2])'
version=$("$python" -c "$print_version")

has_headers() {
  "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}
has_headers || install "python$version-dev" || true
has_headers ||
  fail "the headers of Python $version (Python.h) are missing" "install python$version-dev"

# ---- packages for the tests ----
complete() { # whether the interpreter can import all that tools/requirements.txt names
  "$1" -c 'import importlib.util as u, sys
sys.exit(any(u.find_spec(line.split(">")[0].strip()) is None
             for line in open("tools/requirements.txt") if line[0] not in "#\n"))' 2>/dev/null
}
venv_python=.venv/bin/python
# A virtual environment made from another one does not see its packages: a .pth file does that.
adopt_parent() {
  "$python" -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)' || return 0
  "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    >"$($venv_python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/parent.pth"
}
make_venv() { # sees the system's packages, so that they are not fetched again
  [ -x $venv_python ] && [ "$($venv_python -c "$print_version")" = "$version" ] &&
    $venv_python -m pip --version >/dev/null 2>&1 && return
  rm -rf .venv
  say "creating .venv with Python $version"
  "$python" -m venv --system-site-packages .venv >/dev/null 2>&1 && adopt_parent && return
  rm -rf .venv
  install "python$version-venv" &&
    "$python" -m venv --system-site-packages .venv >/dev/null 2>&1 && adopt_parent && return
  rm -rf .venv
  return 1
}
fetch() { # into .venv
  [ -z "${SETUP_NO_NET:-}" ] || return 1
  $venv_python -m pip install --quiet --disable-pip-version-check --retries 2 "$@" >.setup.log 2>&1
  status=$?
  [ $status = 0 ] || grep -i error .setup.log | tail -2 >&2
  rm -f .setup.log
  return $status
}

run_python=$python
if [ -z "${SETUP_NO_VENV:-}" ] && make_venv; then
  run_python=$PWD/$venv_python
  if ! complete "$run_python"; then
    say "installing $(grep -v '^#' tools/requirements.txt | tr '\n' ' ')into .venv"
    fetch -r tools/requirements.txt || install python3-numpy python3-pytest python3-sympy || true
  fi
elif ! complete "$python"; then
  say "no virtual environment"
  install python3-numpy python3-pytest python3-sympy || true
fi
if complete "$run_python"; then have=yes; else
  have=no
  say "numpy, pytest or sympy are missing and cannot be installed: the Python tests will be skipped"
fi

# ---- ptxas: tests assemble the compiler's PTX ----
has_ptxas() { "$run_python" tools/ptxas.py --where >/dev/null 2>&1; }
if [ $have = yes ] && ! has_ptxas; then
  if [ "$run_python" != "$python" ]; then
    say "installing ptxas (nvidia-cuda-nvcc-cu12, 40 MB) into .venv"
    fetch nvidia-cuda-nvcc-cu12 || true
  fi
  has_ptxas || say "ptxas is missing and cannot be installed: PTX is written but not assembled in tests" \
    "(WAVE_PTXAS=/path/to/ptxas, or put it on the path)"
fi

# ---- libLLVM, loaded at run time: for kernels on this machine's CPU and for AMD GPUs ----
has_llvm() { # [version]: that one, or any from 16 on, as src/runtime/llvm/llvm_library.c looks for it
  "$python" - "$@" <<'END' 2>/dev/null
import ctypes, glob, os, sys
wanted = sys.argv[1:]
named = os.environ.get("WAVE_LLVM") if not wanted else None
names = [named] if named else [
    form % int(v) for v in wanted or range(40, 15, -1)
    for form in ("libLLVM.so.%d.1", "libLLVM-%d.so.1", "libLLVM-%d.so")
] + glob.glob("/usr/lib/llvm-%s/lib/libLLVM*.so*" % "".join(wanted or "*"))
def fits(name):
    try:
        return hasattr(ctypes.CDLL(name), "LLVMGetVersion")
    except OSError:
        return False
sys.exit(not any(map(fits, names)))
END
}
has_llvm || install libllvm19 || install libllvm18 || install libllvm16 || true
# Tests run with every version that is installed. 22 compiles for AMD GPUs that 19 does not know.
for v in 19 22; do has_llvm $v || install libllvm$v || true; done
# In continuous integration also the oldest.
[ -z "${CI:-}" ] || has_llvm 16 || install libllvm16 || true
has_llvm || say "there is no libLLVM of version 16 or newer: kernels run on the CPU only in the" \
  "reference evaluator, which is slow (install libllvm19, or WAVE_LLVM=/path/to/libLLVM.so)"
has_llvm 22 || say "there is no libLLVM 22: no code for gfx950 and gfx1250 (install libllvm22)"

# ---- qemu: tests run code for other CPUs ----
# Only if every test is to run: installing it takes some seconds, and its tests most of a minute.
[ -z "${CI:-}" ] || [ "$(uname -m)" != aarch64 ] || command -v qemu-aarch64 >/dev/null ||
  install qemu-user || true

# ---- CMake ----
cmake_ok() {
  "$1" --version 2>/dev/null |
    awk 'NR == 1 { split($3, v, "."); ok = v[1] > 3 || (v[1] == 3 && v[2] >= 18) } END { exit !ok }'
}
cmake=cmake
cmake_ok "$cmake" || install cmake make || true
if ! cmake_ok "$cmake"; then
  cmake=$PWD/.venv/bin/cmake
  if ! cmake_ok "$cmake" && [ -x $venv_python ]; then
    say "installing cmake from PyPI into .venv"
    fetch cmake || true
  fi
  cmake_ok "$cmake" || fail "CMake 3.18 or newer is missing and could not be installed" \
    "install the package cmake, or: pip install cmake"
fi
generator="Unix Makefiles"
command -v ninja >/dev/null && generator=Ninja

cat >.setup <<END
# written by tools/setup.sh
KEY='$key'
CMAKE='$(command -v "$cmake")'
GENERATOR='$generator'
PYTHON='$run_python'
HAVE_TESTS=$have
END
say "$($cc --version | head -1), $("$cmake" --version | head -1), Python $version, $generator"
