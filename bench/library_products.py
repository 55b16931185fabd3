"""The rows of bench_library.py for `ops.matmul`, whose sizes no program knows: one for all sizes of a
kind. Orders of operands, batches and results with more than the product, beside cuBLAS or beside
the plain product."""

from library_cases import Bar, Case, Row
from library_peers import Peer
from wave_lang import ops

ORDERS = {"nt": (False, True), "nn": (False, False), "tn": (True, False), "tt": (True, True)}
EPILOGUES = {
    "bias": (True, False, None),
    "silu": (False, False, "silu"),
    "bias gelu": (True, False, "gelu"),
    "residual": (False, True, None),
    "bias residual": (True, True, None),
    "silu residual": (False, True, "silu"),
    "bias gelu residual": (True, True, "gelu"),
}


def operands(make, m, n, k, order, batch=()):
    turned = lambda rows, columns, yes: (columns, rows) if yes else (rows, columns)
    a, b = (turned(*size, yes) for size, yes in zip(((m, k), (k, n)), ORDERS[order]))
    return make.random(*batch, *a), make.random(*batch, *b)


def library_call(order):
    """The library's product: of tensors that it sees as transposed."""
    left, right = ORDERS[order]
    return lambda a, b: (a.mT if left else a) @ (b.mT if right else b)


def product(make, m, n, k, order="nt", batch=()):
    left, right = ORDERS[order]
    call = lambda a, b: ops.matmul(a, b, trans_a=left, trans_b=right)
    amount = 2.0 * m * n * k * (batch[0] if batch else 1)
    peer = Peer("cuBLAS", library_call(order))
    return Case(call, operands(make, m, n, k, order, batch), amount, "TF/s", [peer])


def epilogue(make, m, n, k, what):
    """Beside our product alone."""
    has_bias, has_residual, activation = EPILOGUES[what]
    a, b = operands(make, m, n, k, "nt")
    bias = make.random(n) if has_bias else None
    residual = make.random(m, n) if has_residual else None
    call = lambda a, b: ops.matmul(a, b, bias, residual, trans_b=True, activation=activation)
    peer = Peer("plain", lambda a, b: ops.matmul(a, b, trans_b=True))
    return Case(call, (a, b), 2.0 * m * n * k, "TF/s", [peer])


def product_rows(s):
    equal = Bar("peer", 1.0)
    for m, n, k in s.products:
        yield Row(f"matmul {m}x{n}x{k}", equal, product, (m, n, k))
    for n in s.ordered:
        for order in ORDERS:
            yield Row(f"matmul {order} {n}", equal, product, (n, n, n, order))
    count, n = s.products_batch
    yield Row(f"matmul {count} of {n}", equal, product, (n, n, n, "nt", (count,)))
    for m, n, k in s.epilogues:
        for what in EPILOGUES:
            yield Row(f"{what} {m}x{n}x{k}", Bar("peer", 0.97), epilogue, (m, n, k, what))
