"""Random kernels, and what NumPy says of them. `../fuzz_kernels.py` is the command.

    case         what a case is: values, statements, parameters, outputs, sizes and a machine
    draw         draws a case from a seed
    draw_values  reads and elementwise ops
    draw_flow    what some workgroups do, or threads
    draw_sums    reductions and products, with the loops around them
    draw_while   loops that run while a condition holds
    draw_tables  rows that are read where a table says; what is in such tables
    draw_stores  writes and atomics
    text         a case as IR
    model        a case in NumPy
    features     what a case has, counted
    ways         a case run by us, compared with NumPy
    children     many cases in child processes, which may crash or hang
    shrink       a smaller case that fails in the same way

A seed gives the same case on every machine. What is drawn for a seed may change with any commit.
"""
