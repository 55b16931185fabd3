"""Cases in child processes: one that crashes or hangs is a finding like any other."""

import json
import os
import resource
import select
import signal
import sys
import traceback

from .ways import problem_here


def limit(seconds):
    """Ends this process when it has used this much CPU time from now on, however busy the machine
    is."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds, most))


def child(cases, out, seconds):
    for case in cases:
        limit(seconds)
        os.write(out, b"\x01")  # it begins
        found, gone = problem_here(case)
        said = json.dumps([found and found[:4000], gone])
        os.write(out, said.encode() + b"\x02")


def read_results(pipe, timeout):
    """The output of a child, piece by piece; None if it has not printed anything for too long."""
    while True:
        ready, _, _ = select.select([pipe], [], [], timeout)
        piece = os.read(pipe, 65536) if ready else None
        yield piece
        if not piece:
            return


def problems(cases, seconds=120):
    """problem_here of each, in a child process; after a crash the rest runs in another one. A case
    that computes for this many seconds is a hang; so is one that computes and prints nothing for
    ten times as long."""
    results = []
    while len(results) < len(cases):
        sys.stdout.flush()
        pipe, out = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(pipe)
            try:
                child(cases[len(results) :], out, seconds)
            except Exception:  # the fuzzer's own
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(out)
        said, hung = b"", False
        for piece in read_results(pipe, 10 * seconds):
            hung = piece is None
            said += piece or b""
        os.close(pipe)
        if hung:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        hung |= status == -signal.SIGXCPU
        results += [json.loads(r.lstrip(b"\x01")) for r in said.split(b"\x02")[:-1]]
        if len(results) < len(cases):
            results.append(["hang: no answer" if hung else f"crash: a child ended with status {status}", []])
    return results


def problem(case):
    return problems([case])[0][0]
