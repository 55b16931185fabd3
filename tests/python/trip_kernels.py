"""Loops of several kinds as text, with the ops that schedules place, in an order in which each follows
what it needs. `SIZES` stands for rows that give sizes, `ROWS` for those of a schedule."""

import re

import numpy as np

HARDWARE = "hardware threads 64, mma F32_16x16x16_F16"

GEMM = f"""kernel @gemm(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)
  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16; wave M by 16; wave N by 16; {HARDWARE}
  SIZES
  ROWS
{{
  %zero = fill 0.0 : tile<M, N, f32>
  %r = for K carry %acc = %zero {{
    %x = read %a
    %y = read %b
    %n = mma %x, %y, %acc
    yield %n
  }}
  write %r, %c
}}
"""

# A product of products, and a second sum that the loop carries.
CHAINED = f"""kernel @chained(%a: mem<M, D, f16, shared>, %b: mem<K, D, f16, shared>, %v: mem<N, K, f16, shared>,
                %c: mem<N, M, f32>, %d: mem<M, f32>)
  workgroup M by 32 on 0; workgroup N by 16 on 1; tile K by 16; wave M by 16; {HARDWARE}
  bind D = 16; SIZES
  ROWS
{{
  %zero = fill 0.0 : tile<N, M, f32>
  %none = fill 0.0 : tile<M, f32>
  %r, %q = for K carry %acc = %zero, %sum = %none {{
    %x = read %a
    %y = read %b
    %z = fill 0.0 : tile<K, M, f32>
    %p = mma %y, %x, %z
    %e = abs %p
    %s = sum %e, %sum {{dim = K}}
    %h = cast %e : tile<K, M, f16>
    %t = permute %h : tile<M, K, f16>
    %w = read %v
    %n = mma %w, %t, %acc
    yield %n, %s
  }}
  write %r, %c
  write %q, %d
}}
"""

ATTENTION = f"""kernel @attention(%q: mem<M, D, f16>, %k: mem<K, D, f16, shared>, %v: mem<N, K, f16, shared>,
                  %c: mem<N, M, f32>, %d: mem<M, f32>)
  workgroup M by 32 on 0; workgroup N by 16 on 1; tile K by 16; wave M by 16; {HARDWARE}
  bind D = 16; SIZES
  ROWS
{{
  %zero = fill 0.0 : tile<M, f32>
  %low = fill -1000.0 : tile<M, f32>
  %none = fill 0.0 : tile<N, M, f32>
  %r, %top, %all = for K carry %acc = %none, %max = %low, %sum = %zero {{
    %y = read %k
    %x = read %q
    %z = fill 0.0 : tile<K, M, f32>
    %s = mma %y, %x, %z
    %m = max %s, %max {{dim = K}}
    %d0 = sub %max, %m
    %e = exp2 %d0
    %b = broadcast %m : tile<K, M, f32>
    %t = sub %s, %b
    %p = exp2 %t
    %u = mul %sum, %e
    %l = sum %p, %u {{dim = K}}
    %h = cast %p : tile<K, M, f16>
    %g = permute %h : tile<M, K, f16>
    %f = broadcast %e : tile<N, M, f32>
    %i = mul %acc, %f
    %w = read %v
    %n = mma %w, %g, %i
    yield %n, %m, %l
  }}
  write %r, %c
  write %all, %d
}}
"""

# Weights of 8 bits with a scale for each element; the scales are not copied to shared memory.
SCALED = f"""kernel @scaled(%a: mem<M, K, i8, shared>, %s: mem<M, K, f16>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>)
  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16; wave M by 16; wave N by 16; {HARDWARE}
  SIZES
  ROWS
{{
  %zero = fill 0.0 : tile<M, N, f32>
  %r = for K carry %acc = %zero {{
    %x = read %a
    %f = cast %x : tile<M, K, f16>
    %scale = read %s
    %g = mul %f, %scale
    %y = read %b
    %n = mma %g, %y, %acc
    yield %n
  }}
  write %r, %c
}}
"""

# Three rows of an image that lie below each other, and what was read of one is written.
STENCIL = f"""kernel @stencil(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>, %d: mem<M, K, f16>)
  workgroup M by 32 on 0; workgroup N by 16 on 1; tile K by 16; wave M by 16; {HARDWARE}
  SIZES
  ROWS
{{
  %zero = fill 0.0 : tile<M, N, f32>
  %r = for K carry %acc = %zero {{
    %x = read %a
    %u = read %a {{mapping = map 2 {{M: $index0 + 1, K: $index1}} -> {{M: $index0, K: $index1}}}} : tile<M, K, f16>
    %v = read %a {{mapping = map 2 {{M: $index0 + 2, K: $index1}} -> {{M: $index0, K: $index1}}}} : tile<M, K, f16>
    %y = read %b
    %o = mma %x, %y, %acc
    %p = mma %u, %y, %o
    %h = add %u, %v
    write %h, %d
    %n = mma %v, %y, %p
    yield %n
  }}
  write %r, %c
}}
"""

# A loop in a loop: the outer one has a tile of its own.
NESTED = f"""kernel @nested(%a: mem<B, M, K, f16, shared>, %b: mem<N, K, f16, shared>, %g: mem<B, M, N, f16, shared>, %c: mem<M, N, f32>)
  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16; tile B by 1; wave M by 16; wave N by 16
  {HARDWARE}, vector {{B: 0}}
  SIZES
  ROWS
{{
  %zero = fill 0.0 : tile<M, N, f32>
  %r = for B carry %sum = %zero {{
    %gate = read %g {{mapping = map 2 {{B: $ARGB, M: $index0, N: $index1}} -> {{M: $index0, N: $index1}}}} : tile<M, N, f16>
    %h = cast %gate : tile<M, N, f32>
    %s = for K carry %acc = %zero {{
      %x = read %a {{mapping = map 2 {{B: $ARGB, M: $index0, K: $index1}} -> {{M: $index0, K: $index1}}}} : tile<M, K, f16>
      %y = read %b
      %n = mma %x, %y, %acc
      yield %n
    }}
    %t = mul %s, %h
    %u = add %t, %sum
    yield %u
  }}
  write %r, %c
}}
"""

NESTED_ROWS = [
    "at B 0.0 gate.copy; at B 1.0 gate.fetch; at B 2.1 t; schedule K depth 3",
    "ring B gate slots 3; at K 0.0 x.copy y.copy; at K 1.0 x.fetch y.fetch; at K 2.0 n",
    "schedule B depth 2; schedule K depth 2",
    "at B 0.0 gate.copy; at B 0.1 h; at B 2.2 t; ring K x slots 4",
    "at B 1.0 gate.fetch; at B 3.2 t; at B 0.0 gate.copy; at K 0.0 x.copy; at K 0.1 x.fetch; at K 1.2 n",
]

# Two loops over one axis, with tiles in common, and rows for each.
TWICE = f"""kernel @twice(%a: mem<M, K, f16, shared>, %b: mem<N, K, f16, shared>, %c: mem<M, N, f32>, %d: mem<M, f32>)
  workgroup M by 32 on 0; workgroup N by 32 on 1; tile K by 16; wave M by 16; wave N by 16; {HARDWARE}
  SIZES
  ROWS
{{
  %none = fill 0.0 : tile<M, f32>
  %q = for K with {{tag = ["norm"]}} carry %old = %none {{
    %w = read %a
    %f = cast %w : tile<M, K, f32>
    %e = mul %f, %f
    %s = sum %e, %old {{dim = K}}
    yield %s
  }}
  write %q, %d
  %zero = fill 0.0 : tile<M, N, f32>
  %r = for K with {{tag = ["product"]}} carry %acc = %zero {{
    %x = read %a
    %y = read %b
    %n = mma %x, %y, %acc
    yield %n
  }}
  write %r, %c
}}
"""

TWICE_ROWS = [
    "schedule norm depth 3; schedule product depth 2",
    "at norm 0.0 w.copy; at norm 1.0 w.fetch; at norm 2.0 e; at norm 3.0 s; schedule product depth 4",
    "at norm 1.1 s; schedule norm depth 4; at product 0.0 x.copy y.copy; at product 1.0 x.fetch y.fetch; at product 2.0 n",
]

# name: the text, tiles that are copied, and the other ops
KERNELS = {
    "gemm": (GEMM, ["x", "y"], ["x.fetch", "y.fetch", "n"]),
    "chained": (CHAINED, ["y", "w"], ["y.fetch", "p", "e", "s", "h", "w.fetch", "n"]),
    "attention": (ATTENTION, ["y", "w"], ["y.fetch", "s", "m", "e", "p", "l", "h", "i", "w.fetch", "n"]),
    "scaled": (SCALED, ["x", "y"], ["x.fetch", "f", "scale", "g", "y.fetch", "n"]),
    "stencil": (STENCIL, ["x", "u", "v", "y"], ["x.fetch", "u.fetch", "v.fetch", "y.fetch", "o", "p", "h", "n"]),
}


def fill_in(text, sizes, rows):
    return text.replace("SIZES", sizes).replace("ROWS", rows)


def kernel_text(name, sizes, rows):
    return fill_in(KERNELS[name][0], sizes, rows)


def draw_rows(rng, name):
    """Stages that grow along the ops, and cycles that do so in every stage, or often not."""
    _, tiles, ops = KERNELS[name]
    stage, fetched, rows, ordered = rng.integers(0, 3), {}, [], rng.random() < 0.8
    for i, op in enumerate(ops):
        stage = min(stage + int(rng.random() < 0.3), 4)
        cycle = i + 1 if ordered else rng.integers(0, 4)
        if rng.random() < 0.7 or op == "n":
            rows.append(f"at K {stage}.{cycle} {op}")
        fetched[op.removesuffix(".fetch")] = stage
    for tile in tiles:
        ahead = int(rng.integers(0, 1 + fetched[tile]))
        if rng.random() < 0.7:
            rows.append(f"at K {ahead}.0 {tile}.copy")
        if rng.random() < 0.2:
            rows.append(f"ring K {tile} slots {rng.integers(1, 6)}")
    if rng.random() < 0.5:
        rows.append(f"schedule K unroll {rng.integers(1, 5)} drain {rng.choice(['masked', 'peeled'])}")
    return "; ".join(rows)


def arguments(rng, text, sizes):
    """Tensors for the parameters of a kernel, of these sizes."""
    out = []
    for dims, dtype in re.findall(r"mem<((?:[A-Z]\d*, )+)(\w+)", text.split("\n{")[0]):
        shape = [sizes[d] for d in dims.split(", ")[:-1]]
        kind = {"f16": "f2", "f32": "f4", "i8": "i1"}[dtype]
        out.append((rng.standard_normal(shape) * (4 if kind == "i1" else 1)).astype(kind))
    return out
