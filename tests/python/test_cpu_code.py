"""Code for CPUs as files: `wavec --emit=asm`, `--emit=obj`, also for other CPUs; and the symbol map
for `perf`."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from wave_lang.kernel.wave.machine import devices

ROOT = Path(__file__).resolve().parents[2]
WAVEC = ROOT / os.environ.get("BUILD", "build") / "wavec"
KERNEL = ROOT / "docs/tile16.wave"
AARCH64, X86_64 = 183, 62  # as ELF numbers them
pytestmark = [
    pytest.mark.skipif(not WAVEC.exists(), reason="wavec is not built"),
    pytest.mark.skipif(not devices("cpu"), reason="there is no libLLVM"),
]


def wavec(*words):
    command = [WAVEC, KERNEL, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "target, machine, product",
    [
        ("cpu_neon", AARCH64, "fmla\tv"),
        ("cpu_sve256", AARCH64, "fmla\tz"),
        ("cpu_sve512", AARCH64, "fmla\tz"),
        ("cpu_sse", X86_64, "mulps"),
        ("cpu_avx2", X86_64, "vfmadd"),
        ("cpu_amx_fp16", X86_64, "tdpfp16ps"),
    ],
)
def test_other_cpus(target, machine, product, tmp_path):
    done = wavec(f"--target={target}", "--passes=all", "--emit=asm")
    if "unknown target" in done.stderr:
        pytest.skip("this libLLVM was built without that architecture")
    assert done.returncode == 0 and product in done.stdout, done.stderr
    file = tmp_path / "tile16.o"
    done = wavec(f"--target={target}", "--passes=all", "--emit=obj", "-o", file)
    head = file.read_bytes()[:20]
    assert done.returncode == 0 and head[:4] == b"\x7fELF"
    assert struct.unpack("<HH", head[16:20]) == (1, machine)  # relocatable


def test_same_code_everywhere():
    """The code for a named CPU depends on nothing else."""
    first, second = (wavec("--target=cpu_neon", "--passes=all", "--emit=asm") for _ in range(2))
    assert first.stdout == second.stdout and first.stdout


@pytest.mark.parametrize("written, said", [(50, False), (1500, True)])
def test_large_programs_say_that_they_are_not_optimised(written, said, tmp_path):
    """Each thread adds 1500 elements under masks, and writes some of the sums under others."""
    lines = [f"  %m{i} = expr $T0 + {i} < Mod(N, 11) : i1" for i in range(8)]
    for i in range(1500):
        lines.append(f"  %at{i} = expr $T0 + {4 * i} : index")
        lines.append(f"  %x{i} = load %a, %at{i}, %m{i % 8} : i32")
        lines.append(f"  %s{i + 1} = add %s{i}, %x{i}")
    lines += [f"  store %s{1500 - i}, %b, %at{i}, %m{(i + 1) % 8}" for i in range(written)]
    head = "thread kernel @k(%a: mem<N, i32>, %b: mem<N, i32>)\n  launch grid (1) block (4) wave 4\n"
    path = tmp_path / "large.wave"
    path.write_text(head + "  dynamic N\n{\n  %s0 = scalar 0 : i32\n" + "\n".join(lines) + "\n}\n")
    command = [WAVEC, path, "--target=cpu_neon", "--passes=all", "--emit=obj", "-o", tmp_path / "o"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and ("remark[R0903]: `k`" in done.stderr) == said, done.stderr


@pytest.mark.parametrize(
    "words, status, says",
    [
        (["--target=cpu_neon", "--passes=all", "--emit=obj"], 2, "-o NAME.o"),
        (["--target=sm_90a", "--passes=all", "--emit=asm"], 1, "E0906"),
        (["--target=cpu_noen", "--emit=asm"], 1, "E0603"),
        (["--emit=asm"], 1, "E0601"),
    ],
)
def test_mistakes(words, status, says):
    done = wavec(*words)
    assert done.returncode == status and says in done.stderr and not done.stdout


RUN = """
import os, sys
sys.path.insert(0, sys.argv[1])
from test_compile import check_scale, compile_scale
check_scale(compile_scale(target="cpu"))
path = f"/tmp/perf-{os.getpid()}.map"
if os.path.exists(path):
    print(open(path).read())
    os.remove(path)
"""


@pytest.mark.parametrize("wanted", ["1", "0", None])
def test_perf(wanted):
    environment = {k: v for k, v in os.environ.items() if k != "WAVE_PERF"}
    environment |= {"WAVE_PERF": wanted} if wanted else {}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", RUN, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line]
    assert bool(rows) == (wanted == "1")
    for address, size, name in rows:
        assert int(address, 16) > 0 and int(size, 16) > 0 and name.startswith("wave_")
