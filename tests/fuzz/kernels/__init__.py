"""Random kernels, and their results in NumPy. `../fuzz_kernels.py` is the command.

    case         the class of a case: values, statements, parameters, outputs, sizes and a machine
    draw         draws a case from a seed
    draw_values  reads and elementwise ops
    draw_flow    ops of some workgroups, or threads
    draw_sums    reductions and matmuls, with the loops around them
    draw_while   loops that run while a condition holds
    draw_tables  rows gathered through tables; the contents of such tables
    draw_stores  writes and atomics
    text         a case as IR
    model        a case in NumPy
    features     features of cases, counted
    ways         a case run by Wave, compared with NumPy
    children     many cases in child processes, which may crash or hang
    shrink       a smaller case that fails in the same way

A seed gives the same case on every machine. What is drawn for a seed may change with any commit.
"""
