"""What `make calibrate` derives from timelines, with timelines that are made up."""

import sys

import pytest

from test_docs import ROOT

sys.path.insert(0, f"{ROOT}/bench")
import bench_timeline  # noqa: E402
import calibrate  # noqa: E402

TABLE = calibrate.UNITS.read_text()


def loop(predicted, measured, **ops):
    """Ops by their names: predicted and measured."""
    listed = [{"name": n, "predicted": p, "measured": float(m)} for n, (p, m) in ops.items()]
    times = {"predicted": predicted, "measured": float(measured), "with_stamps": 1.1 * measured}
    return {**times, "ops": listed}


def test_rows_of_the_table_are_found():
    name, numbers = calibrate.row_of(TABLE, "LATENCIES", "sm_90a")
    assert name == "sm_90a" and len(numbers) == len(calibrate.COLUMNS["LATENCIES"])
    assert calibrate.row_of(TABLE, "LATENCIES", "gfx942")[0] == "gfx"
    assert len(calibrate.row_of(TABLE, "RATES", "sm_90a")[1]) == len(calibrate.COLUMNS["RATES"])
    assert calibrate.rate_of(TABLE, "sm_90a", "WGMMA", 16) == 2048
    with pytest.raises(SystemExit, match="no row RATES for toy8"):
        calibrate.row_of(TABLE, "RATES", "toy8")


def test_a_latency_is_wrong_by_what_its_op_takes_more():
    found = loop(300, 330, barrier=(20, 31), x_barrier=(100, 90))
    assert calibrate.fitted_latency(800, found, "barrier") == 790  # the longest one
    assert calibrate.fitted_latency(20, loop(300, 330, barrier=(20, 31)), "barrier") == 31
    assert calibrate.fitted_latency(5, loop(9, 9, mma=(100, 2)), "mma") == 1  # never below
    assert calibrate.fitted_latency(20, found, "mma") is None


def test_a_rate_is_wrong_by_the_ratio_of_the_interval():
    assert calibrate.fitted_rate(47, loop(1000, 940)) == 50
    shares = {"copy": (100, True), "matrix": (96, False), "shared": (94, False)}
    lanes = [{"name": n, "busy_percent": p, "limits": l} for n, (p, l) in shares.items()]
    schedule = {"loops": [{"lanes": lanes}]}
    assert [calibrate.limits(schedule, name) for name in shares] == [True, True, False]


class Fake(calibrate.Calibration):
    def probe(self, case):
        lanes = [{"name": "copy", "busy_percent": 100, "limits": True}]
        found = loop(1000, 500, mma=(40, 50), barrier=(20, 25))
        return found, {"loops": [{"lanes": lanes}]}


def test_rows_say_machine_and_date():
    found = Fake("sm_90a", "a GPU", "2026-01-02", 1)
    found.fit_latencies()
    found.fit_rates()
    _, old = calibrate.row_of(TABLE, "LATENCIES", "sm_90a")
    names = calibrate.COLUMNS["LATENCIES"]
    more = {"shared": 10, "barrier": 5, "global": 5}
    new = [n + more.get(name, 0) for n, name in zip(old, names)]
    kept = [name for name in names if name not in more]
    assert found.rows[0] == (
        f"LATENCIES(sm_90a, {', '.join(map(str, new))}, "
        '"measured on a GPU, 2026-01-02: shared, barrier, global; '
        f'{", ".join(kept)}: as before")'
    )
    l2 = calibrate.row_of(TABLE, "RATES", "sm_90a")[1][-1]
    assert found.rows[1].startswith("RATES(sm_90a, ") and f", {2 * l2}, " in found.rows[1]
    assert len(found.rows) == 2  # the matrix unit did not limit its probes
    assert sum("stays" in note for note in found.notes) == 3  # nor were there bulk copies


def test_the_simulator_is_not_calibrated():
    probe = calibrate.gemm(64, 64, 256, (64, 64, 32), (2, 2), calibrate.SYNC)
    found = calibrate.Calibration("sim:sm_90a", "none", "2026-01-02", 1)
    with pytest.raises(SystemExit, match="counts instructions"):
        found.probe(probe)


def test_small_ops_do_not_count():
    share, worst = bench_timeline.agreement(loop(100, 100, a=(50, 52), b=(45, 20), c=(1, 4)))
    assert share == 0.5 and worst["name"] == "b"
    assert bench_timeline.agreement(loop(100, 100)) == (0, None)
