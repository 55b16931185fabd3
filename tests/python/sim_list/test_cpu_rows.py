"""Matmuls of small types as each CPU of targets.def computes them: with dot products, 2 x 2 tiles
and matrix registers, in the simulator with every check, on any machine."""

import re
from pathlib import Path

import pytest

from kernel_list import CASES, FULL
from test_sim_list import check_simulated

TABLE = Path(__file__).parents[3] / "src/target/targets.def"
CPUS = re.findall(r"^CPU\((\w+),", TABLE.read_text(), re.MULTILINE)
SMALL = [c for c in CASES if re.search(r"gemm.*_(bf16|i8|f8)", c.name)]


def sample():
    """Every case on some CPUs, every CPU with cases of every type and form."""
    for place, case in enumerate(SMALL):
        for number, target in enumerate(CPUS):
            turn = place * 5 + number * 3
            for i, sizes in enumerate(case.shapes):
                if FULL or (number + place) % 3 == 0 and i == turn % len(case.shapes):
                    yield pytest.param(case, sizes, target, id=f"{case.name}-{i}-{target}")


@pytest.mark.parametrize("case,sizes,target", [*sample()])
def test_cpu_row(case, sizes, target):
    check_simulated(case, sizes, target, ["round"])


def test_sample_has_all():
    taken = [p.values for p in sample()]
    assert {t for _, _, t in taken} == {*CPUS}
    for word in ("_bf16_", "_i8_", "_f8"):
        for form in ("_nt_", "_nn_", "_tn_"):
            some = {t for c, _, t in taken if word in c.name and form in c.name}
            assert len(some) > 2, (word, form, some)
