"""Kernels of the list on CPUs that this machine does not have: compiled here, run by qemu-aarch64.

    python emulated.py ROW [--every] [--only WORD] [--part I/N]

Compiling is most of the work and emulated code is slow: so a process on this machine compiles for the
row (targets.def) and keeps the objects in files, and an emulated process finds them there. The
emulated process must not compile anything except what a launch needs in addition. Ends with `N
passed, M failed`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.dirname(HERE), HERE]

QEMU = shutil.which("qemu-aarch64")
# Each row of targets.def with a CPU that has its features, and no longer vectors.
QEMU_CPUS = {
    "cpu_neon": "cortex-a72",
    "cpu_neon_dot": "neoverse-n1",
    "cpu_neon_mm": "max,sve=off",
    "cpu_sve256": "max,sve256=on",
    "cpu_sve512": "a64fx",
}
# One size each of some of these in turn: every type, both operand orders, and the other tile
# kernels.
SAMPLE = (
    *(
        "gemm_nt_f16_16x16x16_t48x80x32",
        "gemm_nn_f32_16",
        "gemm_tn_f32_dot",
        "gemm_nt_bf16_32x32x8",
    ),
    *(
        "gemm_nn_bf16_16x16x16_t80",
        "gemm_tn_bf16",
        "gemm_nt_i8_16x16x32",
        "gemm_nn_i8",
        "gemm_tn_i8",
    ),
    *("gemm_nt_f8e4m3fn_16", "gemm_nn_f8", "chained_gemm_16x16x16_16x16x16_t16"),
    *("conv_3x3_stride1_16x16x16_t48", "attention_causal_16x16x16_t32x16x16x32_"),
    *("attention_boundary_16x16x16_t48", "softmax_f16", "layer_norm_f32_2", "rms_norm_bf16"),
    *("functions_f32", "transpose_f16_48", "cast_f32_f8e4m3fn_"),
)


def cases():
    import cases_attention
    import cases_gemm
    import cases_rows
    import tile_cases

    lists = cases_rows.CASES, cases_gemm.CASES, cases_attention.CASES, tile_cases.CASES
    return [case for cases in lists for case in cases]


def is_tile(case):
    return hasattr(case, "form")


def items_of(row, every, only="", part="1/1"):
    """(number of the case, number of its sizes). Leaves out kernels that are compiled when called:
    the emulated process would compile them."""
    import tile_cases

    turn = [*QEMU_CPUS].index(row)
    items = []
    for number, case in enumerate(cases()):
        count = len(case.shapes)
        if getattr(case, "open", False):
            continue
        if only not in case.name or (is_tile(case) and not tile_cases.has_form(row, case)):
            continue
        if every or is_tile(case):
            items += [(number, i) for i in range(count)]
        elif case.name.startswith(SAMPLE):
            items.append((number, (5 * number + 7 * turn) % count))
    which, parts = map(int, part.split("/"))
    return items[which - 1 :: parts]


def compile_items(row, items):
    """Compiles into the cache: objects that this machine cannot run. Returns why items were not
    compiled."""
    from wave_lang.kernel.wave.compiled import compile_program

    failed = {}
    for number, shape in items:
        case = cases()[number]
        try:
            if is_tile(case):
                case.keep(case.shapes[shape], row)
                continue
            made = case.compile(case.shapes[shape], "eval")
            compile_program(made.options, made.ir, row, -1)
        except Exception as error:
            failed[number, shape] = f"{type(error).__name__}: {error}"
    return failed


def run_items(row):
    """The emulated process: items on a line of its input, a line for each result."""
    for number, shape in json.loads(sys.stdin.readline()):
        case = cases()[number]
        sizes, reason = case.shapes[shape], None
        try:
            arguments = case.arguments(sizes)
            after = [(dtype, array.copy()) for dtype, array in arguments]
            kernel = case.compile(sizes, row)
            program = kernel.program if is_tile(case) else kernel.compile_for("cpu")
            assert program, str(kernel.remarks)
            assert program.variants[0].from_cache, "it was compiled here, which takes too long"
            kernel(*(array for _, array in after))
            case.check(sizes, arguments, after)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        print(json.dumps([number, shape, reason]), flush=True)


def emulate(row, items, seconds):
    """Results of the emulated process, and the end of its output if results are missing."""
    python = os.path.realpath(sys.executable)
    # A copy of Python finds its packages by the name under which it is called.
    command = [QEMU, "-cpu", QEMU_CPUS[row], "-0", sys.executable, python, __file__, row, "--run"]
    environment = dict(os.environ, WAVE_NUM_THREADS="2", OPENBLAS_NUM_THREADS="1")
    text = json.dumps(items) + "\n"
    try:
        done = subprocess.run(
            command, input=text, env=environment, capture_output=True, text=True, timeout=seconds
        )
        out, words = done.stdout, f"status {done.returncode}: {done.stderr[-400:]}"
    except subprocess.TimeoutExpired as late:
        out, words = (late.stdout or b"").decode(), f"not done after {seconds} seconds"
    lines = [line for line in out.splitlines() if line.startswith("[")]
    return {(n, s): why for n, s, why in map(json.loads, lines)}, words


def check_row(row, items, seconds=600):
    """(the number that passed, why others failed)."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(WAVE_CACHE_DIR=folder, WAVE_CACHE_ON="1")
        refused = compile_items(row, items)
        asked = [item for item in items if item not in refused]
        found, words = emulate(row, asked, seconds)
    wrong = {**refused, **{item: why for item, why in found.items() if why}}
    for item in asked:
        if item not in found:
            wrong[item] = f"no result: {words}"
    names = {item: f"{cases()[item[0]].name} {item[1]}" for item in wrong}
    return len(items) - len(wrong), [f"{row} {names[i]}: {why}" for i, why in wrong.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("row", choices=[*QEMU_CPUS])
    parser.add_argument("--every", action="store_true", help="every case with all its sizes")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--part", default="1/1", metavar="I/N")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        return run_items(options.row)
    items = items_of(options.row, options.every, options.only, options.part)
    passed, wrong = check_row(options.row, items, options.seconds)
    print(*wrong, sep="\n")
    print(f"{options.row}: {passed} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
