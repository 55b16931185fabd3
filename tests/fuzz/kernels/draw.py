"""The case of a seed: sizes, tiles, waves, a machine, then statements, outputs and header rows."""

import random

from .case import Case
from .draw_flow import branch, observe, some_groups
from .draw_groups import group_sum
from .draw_stores import store
from .draw_sums import accumulate, boxed_product, combine, multiply, place_of_best, product, reduce, scan, some_sums
from .draw_tables import gather, rename
from .draw_values import binary, bits, broadcast, cast, difference, index, inline, limits, mixed, narrow, rounded
from .draw_values import saturated, select
from .draw_while import repeat
from .pins import draw_pins
from .text import text_of

TARGETS = ("gfx942", "sm_80", "sm_86", "sm_89", "sm_90a", "toy8", "gfx1100", "gfx90a", "cpu", "cpu_neon")
TARGETS += ("gfx950", "gfx1250")
SCHEDULES = ("round", "reverse", "random:3")
WIDTHS = (8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 120, 128, 144, 160, 192, 224)


def draw(seed):
    case = Case(seed)
    r = case.r
    machine(case)
    if case.stays:
        case.pins = [("persist", random.Random(f"workgroups {case.seed}").randint(1, 6), 0.0)]
    elif r.random() < 0.3:
        case.pins = draw_pins(r)
        if r.random() < 0.4 and case.tile["K"] <= 16:  # more iterations than stages and slots together
            case.size["K"] = r.randint(0, 12 * case.tile["K"])
    statements(case)  # the size of K limits what their values may be
    for _ in range(r.randint(1, 2)):
        store(case)
    if r.random() < 0.3 and not case.resized:  # checked wherever the symbol is set
        case.assumed = [claim(case) for _ in range(r.randint(1, 3))]
    case.disagree = r.random() < 0.1 and not case.stays
    if case.disagree or r.random() < 0.3 and not case.stays:
        for name, order, *_ in (*case.params, *case.outputs):
            if r.random() < 0.4 and case.tables.get(name) != "once":  # 0 outside, perhaps twice
                case.spare[name] = {d: r.choice((-1, 0, 0, 1, 6)) for d in order}
    wishes = {f"stages {r.randrange(5)}": 0.5 if "for K" in text_of(case) else 0.2}
    wishes |= {f"boxes {r.randrange(2)}": 0.0 if case.stays else 0.2, "swizzle 0": 0.2, "overlap 0": 0.2, "repack 1": 0.3}
    case.wishes = [row for row, chance in wishes.items() if r.random() < chance]  # compile options
    later = random.Random(f"rows {case.seed}")  # drawn apart, as other seeds then give the same cases
    wishes = {"again 1": 0.3, "fetch 1": 0.3, "warm 0": 0.1}
    case.wishes += [row for row, chance in wishes.items() if later.random() < chance]
    case.fast_math = r.random() < 0.1
    if r.random() < 0.2 and not case.stays:
        for name, *_ in (*case.params, *case.outputs):
            case.views[name] = r.choice((None, "columns", "apart", "backwards", "padded"))
    case.asserts = r.random() < 0.25 and not case.stays
    case.open = not case.cut_n and r.random() < 0.5
    if r.random() < 0.1 and "for K" in text_of(case):
        case.wishes.append(f"timeline {r.randrange(3)}")
    return case


def machine(case):
    """Sizes, tiles and waves, and what runs them."""
    r = case.r
    case.tile = {d: r.choice((1, 2, 3, 4, 5, 8, 12, 16, 16, 24, 32)) for d in "MN"}
    if r.random() < 0.1:
        case.tile = {"M": r.choice((1, 2)), "N": r.choice((96, 100, 160))}  # rows of many vectors
    case.tile["K"] = r.choice((1, 3, 4, 8, 16, 16, 32, 64))
    case.size = {d: draw_size(case, case.tile[d]) for d in "MNK"}
    case.cut_n = r.random() < 0.4
    if not case.cut_n:
        case.tile["N"] = max(1, case.size["N"])
    case.waves_m = r.choice([w for w in (1, 1, 2, 4) if case.tile["M"] % w == 0])
    case.dynamic = r.random() < 0.5
    case.target = r.choice(TARGETS)
    case.wide = r.random() < 0.2
    if case.wide:
        widen(case)
    stay(case)
    crowd(case)
    share(case)
    if r.random() < 0.3:
        room = 1024 // (case.threads * case.waves_m * case.waves_n)
        case.waves_k = r.choice([w for w in (2, 2, 3, 4) if w <= room and case.tile["K"] % w == 0] or [1])
    lengthen(case)
    case.size["T"] = r.choice((1, 7, 40, 1, 7, 40, 1, 7, 40, 0))
    case.schedule = r.choice(SCHEDULES)


def lengthen(case):
    """Tiles of K whose panels a CPU multiplies in parts. Drawn apart, as other seeds then give the same
    cases."""
    apart = random.Random(f"long {case.seed}")
    if case.target.startswith("cpu") and apart.random() < 0.15:
        case.tile["K"] = apart.choice((300, 600))  # multiples of any number of waves
        case.size["K"] = apart.choice((1, 130, 299, 301, 600, 650))


def draw_size(case, tile):
    return case.r.choice((*(1, max(1, tile // 3), max(1, tile - 1), tile, tile + 1, 2 * tile + 3) * 4, 0))


def widen(case):
    """Tiles for wgmma: 64 rows or more, any number of columns; one to four warpgroups."""
    r = case.r
    case.tile = {"M": r.choice((64, 64, 128)), "N": r.choice(WIDTHS), "K": r.choice((16, 32, 48, 64))}
    case.size = {d: draw_size(case, case.tile[d]) for d in "MNK"}
    case.size["K"] = r.choice((case.size["K"], 3 * case.tile["K"]))
    case.cut_n = True
    case.threads = r.choice((32, 64, 128))
    waves = r.choice((1, 2, 2, 4)) * 128 // case.threads
    splits = [w for w in (1, 2, 4, 8, 16) if waves % w == 0 and case.tile["M"] % w == 0]
    case.waves_m = r.choice([w for w in splits if case.tile["N"] % (waves // w) == 0] or [1])
    case.waves_n = waves // case.waves_m if case.tile["N"] % (waves // case.waves_m) == 0 else 1
    case.target = r.choice(("sm_90a", "sm_90a", "sm_90a", "sm_80", "gfx942", "cpu"))
    if r.random() < 0.4:  # narrower than a group's part: several instructions, side by side
        case.mma = f"wgmma_m64n{r.choice([n for n in WIDTHS if case.tile['N'] % n == 0])}k16_f32_f16"


def stay(case):
    """Products by workgroups that stay, whose tiles the copy engine brings; neighbours may form clusters. Drawn
    apart, too."""
    r = random.Random(f"stays {case.seed}")
    case.stays = case.wide and case.tile["K"] % 8 == 0 and r.random() < 0.3
    if not case.stays:
        return
    case.target, case.mma = "sm_90a", "F32_16x16x16_F16"
    case.dynamic = r.random() < 0.3
    case.size = {d: r.randint(1, 4 * case.tile[d]) for d in "MN"}
    case.size["K"] = 8 * r.randint(1, case.tile["K"] // 2)


def crowd(case):
    """Tiles that fill the registers of few waves, or more: they are divided (R0620). Drawn apart, so
    that other seeds give the same cases with and without this."""
    r = random.Random(f"crowded {case.seed}")
    case.crowded = not case.wide and r.random() < 0.12
    if not case.crowded:
        return
    case.tile = {"M": r.choice((64, 96, 128, 192)), "N": r.choice((64, 96, 128, 160, 256)), "K": r.choice((8, 16, 32))}
    case.size = {d: r.choice((1, n // 3, n - 1, n, n + 1, n + n // 2, 2 * n + 3)) for d, n in case.tile.items()}
    case.cut_n = True
    case.threads, case.waves_m, case.waves_n = r.choice((32, 32, 64)), r.choice((1, 1, 2)), 1
    case.target = r.choice(("sm_80", "sm_90a", "sm_86", "gfx1100", "gfx1250", "gfx942"))


def share(case):
    """Several workgroups for each tile, which share a sum. Drawn apart, too."""
    r = random.Random(f"shared {case.seed}")
    if r.random() < 0.15:
        case.tile["P"], case.size["P"] = 1, r.choice((1, 2, 2, 3, 4, 4, 5, 8, 9))
        case.meets = r.randint(0, 4)
        case.target = r.choice([t for t in TARGETS if not t.startswith("cpu")] + ["sm_90a"] * 8)


def claim(case):
    """A condition on sizes, as often true as false."""
    r, d = case.r, case.r.choice("MNK")
    n = case.size[d]
    return r.choice(
        (
            f"Eq(Mod({d}, {case.tile[d]}), 0)",
            f"Eq(Mod({d}, 4), 0)",
            f"{d} < {n + r.choice((0, 1))}",
            f"{d} >= {n + r.choice((0, 1))}",
            f"Eq({d}, {r.choice((n, case.tile[d]))})",
            f"M + {d} > {r.choice((3, 30))}",
            "$WG0 < 1",  # nothing that a launch could check
        )
    )


def statements(case):
    kinds = [binary, binary, select, cast, index, broadcast]
    kinds += [bits, limits, mixed, rounded, inline, branch, gather, rename, repeat]
    kinds += [narrow, difference, saturated]
    kinds += [reduce, reduce, product, accumulate, some_groups, scan, some_sums, multiply, place_of_best, combine]
    if "P" in case.tile and case.seed % 8:
        kinds.remove(repeat)  # its counters are positions
    if case.stays:
        kinds = [binary, select, cast, rounded, saturated]
    elif case.r.random() < 0.25:
        kinds += [observe] * 3
    if case.stays:
        boxed_product(case, case.statements)
        case.values = case.values[-1:]  # what is stored follows from it
    elif case.wide:
        product(case, case.statements)
    for i in range(case.r.randint(0, 3) if case.wide else case.r.randint(1, 9)):
        if "P" in case.tile and i == case.meets:
            group_sum(case, case.statements)
        case.r.choice(kinds)(case, case.statements)
