#!/usr/bin/env python3
"""Compiles every header alone; include/wave.h also as C++. Prints `N passed, M failed`.

tools/check_headers.py        CC and CXX choose the compilers
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WARN = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def headers(*tops):
    for top in tops:
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            yield from (
                os.path.relpath(os.path.join(folder, n), ROOT)
                for n in sorted(names)
                if n.endswith(".h")
            )


def cxx_works(cxx):
    probe = [cxx, "-x", "c++", "-fsyntax-only", "-"]
    return (
        shutil.which(cxx)
        and subprocess.run(probe, input="", text=True, capture_output=True).returncode == 0
    )


def jobs():
    cc = os.environ.get("CC", "cc").split()
    for path in headers("include", "src", "python/ext", "tools", "tests"):
        includes = ["-Isrc", "-Iinclude", "-Itests", "-Ipython/ext"]
        if path.startswith("python/ext"):
            if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
                continue
            includes += ["-isystem", sysconfig.get_path("include"), "-DPy_LIMITED_API=0x030b0000"]
        # -include and an empty source: a header compiled as the main file would warn about itself.
        yield path, cc + [
            "-std=c17",
            "-Wno-unused-function",
            *WARN,
            *includes,
            "-include",
            path,
            "-x",
            "c",
            "/dev/null",
        ]
    for cxx in dict.fromkeys([os.environ.get("CXX", "c++"), "g++", "clang++"]):
        if cxx_works(cxx):
            yield "include/wave.h as C++", [
                cxx,
                "-std=c++11",
                "-pedantic",
                *WARN,
                "-Iinclude",
                "-include",
                "include/wave.h",
                "-x",
                "c++",
                "/dev/null",
            ]
            break


def main():
    def compile_one(job):
        return job[0], subprocess.run(job[1], cwd=ROOT, capture_output=True, text=True)

    passed = failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, result in pool.map(compile_one, jobs()):
            if result.returncode == 0:
                passed += 1
            else:
                failed += 1
                print(f"FAILED {path} does not compile alone\n{result.stderr}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(print(__doc__))
    sys.exit(main())
