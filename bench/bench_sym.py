"""Checks bench_sym's results and compares its speed with SymPy's cancel.

    python3 bench/bench_sym.py BENCH_SYM EXPRESSIONS FACTS [--points N] [--sympy N]

Each printed result is compared with its input at N random points that satisfy the facts, by an
evaluator of this file (exact fractions, lazy Piecewise). With --sympy N every (count/N)-th expression
is also given to sympy.cancel, in the same run on the same machine.
"""
import argparse
import ast
import random
import re
import subprocess
import tempfile
import time
from fractions import Fraction
from math import ceil, floor


class Undefined(Exception):
    pass


def to_python(text):
    return re.sub(r"\$(\w+)", r"S_\1", text)


def call(name, args, env):
    if name == "Piecewise":
        for pair in args:
            value, cond = pair.elts
            if evaluate(cond, env):
                return evaluate(value, env)
        raise Undefined
    a = [evaluate(x, env) for x in args]
    if name == "floor":
        return Fraction(floor(a[0]))
    if name == "ceiling":
        return Fraction(ceil(a[0]))
    if name == "Mod":
        if a[1] == 0:
            raise Undefined
        return a[0] - a[1] * floor(a[0] / a[1])
    if name == "xor":
        if a[0].denominator != 1 or a[1].denominator != 1:
            raise Undefined
        return Fraction(int(a[0]) ^ int(a[1]))
    return {"Max": max, "Min": min, "Eq": lambda x, y: x == y, "Ne": lambda x, y: x != y}[name](*a)


def evaluate(node, env):
    if isinstance(node, ast.Expression):
        return evaluate(node.body, env)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, bool) else Fraction(node.value)
    if isinstance(node, ast.Name):
        return env[node.id]
    if isinstance(node, ast.Call):
        return call(node.func.id, node.args, env)
    if isinstance(node, ast.UnaryOp):
        v = evaluate(node.operand, env)
        return not v if isinstance(node.op, ast.Invert) else -v
    if isinstance(node, ast.Compare):
        a, b = evaluate(node.left, env), evaluate(node.comparators[0], env)
        op = type(node.ops[0])
        return {ast.Lt: a < b, ast.LtE: a <= b, ast.Gt: a > b, ast.GtE: a >= b, ast.Eq: a == b}[op]
    a = evaluate(node.left, env)
    op = type(node.op)
    if op is ast.BitAnd:
        return bool(a) and bool(evaluate(node.right, env))
    if op is ast.BitOr:
        return bool(a) or bool(evaluate(node.right, env))
    b = evaluate(node.right, env)
    if op is ast.Div:
        if b == 0:
            raise Undefined
        return a / b
    return {ast.Add: lambda: a + b, ast.Sub: lambda: a - b, ast.Mult: lambda: a * b, ast.Pow: lambda: a ** int(b)}[op]()


def names(texts):
    found = set()
    for text in texts:
        found.update(re.findall(r"\$?[A-Za-z_]\w*", text))
    functions = {"floor", "ceiling", "Mod", "Max", "Min", "xor", "Piecewise", "True", "False", "Eq", "Ne"}
    return sorted(to_python(n) for n in found - functions)


def random_point(symbols, facts, rng):
    steps = {}
    for f in facts:
        m = re.fullmatch(r"Mod\((\S+), (\d+)\) == 0", f)
        if m:
            steps[to_python(m.group(1))] = int(m.group(2))
    parsed = [ast.parse(to_python(f), mode="eval") for f in facts]
    while True:
        point = {}
        for s in symbols:
            top = rng.choice([2, 8, 40, 300, 20000])
            point[s] = Fraction(rng.randrange(top) * steps.get(s, 1))
        if all(evaluate(f, point) for f in parsed):
            return point


def check(inputs, outputs, facts, points):
    rng = random.Random(1)
    env = [random_point(names(inputs + facts), facts, rng) for _ in range(points)]
    compared = wrong = 0
    for a, b in zip(inputs, outputs):
        x, y = (ast.parse(to_python(t), mode="eval") for t in (a, b))
        for point in env:
            try:
                want = evaluate(x, point)
            except Undefined:
                continue
            compared += 1
            if evaluate(y, point) != want:
                wrong += 1
                print("differs:", a, "became", b, "at", {k: int(v) for k, v in point.items()})
                break
    print(f"{len(inputs)} results, {compared} values compared, {wrong} wrong")
    return wrong


def sympy_seconds(inputs):
    import sympy

    class xor(sympy.Function):
        nargs = 2

    local = {n: sympy.Symbol(n, integer=True, nonnegative=True) for n in names(inputs)}
    local.update(xor=xor, Mod=sympy.Mod, floor=sympy.floor, ceiling=sympy.ceiling, Max=sympy.Max, Min=sympy.Min, Piecewise=sympy.Piecewise)
    spent = used = 0
    for text in inputs:
        try:
            e = sympy.sympify(to_python(text), locals=local)
            start = time.perf_counter()
            sympy.cancel(e)
        except Exception:  # a symbol used as a condition: SymPy rejects it
            continue
        spent += time.perf_counter() - start
        used += 1
    return spent / used, used


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bench")
    p.add_argument("expressions")
    p.add_argument("facts")
    p.add_argument("--points", type=int, default=40)
    p.add_argument("--sympy", type=int, default=0)
    a = p.parse_args()
    inputs, facts = (open(f).read().split("\n")[:-1] for f in (a.expressions, a.facts))
    with tempfile.NamedTemporaryFile("r") as out:
        text = subprocess.run([a.bench, a.expressions, a.facts, "--print", out.name], capture_output=True, text=True, check=True).stdout
        outputs = out.read().split("\n")[:-1]
    print(text, end="")
    wrong = check(inputs, outputs, facts, a.points)
    if a.sympy:
        mean, used = sympy_seconds(inputs[:: max(1, len(inputs) // a.sympy)])
        warm = float(re.search(r"warm: mean ([\d.]+)", text).group(1))
        print(f"sympy.cancel: mean {mean * 1e6:.0f} us over {used} expressions, without parsing: {mean * 1e6 / warm:.0f} times as long")
    return wrong != 0


if __name__ == "__main__":
    raise SystemExit(main())
