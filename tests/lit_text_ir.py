"""How lit runs a test in text IR: with tools/wcheck.py, which describes the directives.

wavec is the one built in the tree (BUILD names its folder), else the one on the PATH;
`lit --param wavec=FILE` chooses another.
"""

import os
import shutil
import subprocess
import sys

import lit.Test
from lit.formats import FileBasedTest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def find_wavec(params):
    built = os.path.join(ROOT, os.environ.get("BUILD", "build"), "wavec")
    given = params.get("wavec")
    return given or (built if os.access(built, os.X_OK) else shutil.which("wavec"))


class TextIR(FileBasedTest):
    def __init__(self, wavec):
        self.command = [sys.executable, os.path.join(ROOT, "tools", "wcheck.py"), "--wavec", wavec]

    def execute(self, test, lit_config):
        command = [*self.command, test.getSourcePath()]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        result = lit.Test.FAIL if done.returncode else lit.Test.PASS
        return result, done.stdout + done.stderr
