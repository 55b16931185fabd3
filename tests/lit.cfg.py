"""`lit tests` runs the tests in text IR, as lit_text_ir.py says."""

# lit defines `config` and `lit_config` before it runs this.
import os
import sys

TESTS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, TESTS)  # workers import it as well

from lit_text_ir import TextIR, find_wavec  # noqa: E402

wavec = find_wavec(lit_config.params)  # noqa: F821
if wavec is None:
    lit_config.fatal("wavec was not found: run `make`, or `pip install .`")  # noqa: F821

config.name = "wave"  # noqa: F821
config.suffixes = [".wave"]  # noqa: F821
config.excludes = ["fuzz", "python", "sym", "tools", "unit"]  # noqa: F821
config.test_format = TextIR(wavec)  # noqa: F821
config.test_source_root = config.test_exec_root = TESTS  # noqa: F821
