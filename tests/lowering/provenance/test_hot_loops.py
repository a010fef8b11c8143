from gathernest.lowering.provenance.trace import Level, Line, MachineLoop


def level(*loops):
    """Return an assembly with loops of (name, depth in the nest, kinds of its lines)."""
    lines, found = [], []
    for name, depth, kinds in loops:
        found.append(MachineLoop(tuple(range(len(lines), len(lines) + len(kinds))), 1, True, name, depth))
        lines += [Line("", (), kind) for kind in kinds]
    return Level("assembly", "assembly", tuple(lines), 0, loops=(*found, MachineLoop((0,), 1, False)))


def order(*loops):
    return [loop.name for loop in level(*loops).hot_loops]


def test_the_deepest_loop_of_the_nest_is_the_hottest():
    assert order(("check_indices", 4, ("load",) * 9), ("inner", 8, ("load", "store"))) == ["inner", "check_indices"]


def test_of_equal_depth_a_remainder_comes_behind_and_most_accesses_come_first():
    few, many, rest = ("a", 8, ("load", "arithmetic")), ("b", 8, ("load", "store")), ("c_rest", 8, ("load",) * 9)
    assert order(rest, few, many) == ["b", "a", "c_rest"]


def test_a_loop_that_calls_a_function_is_last():
    assert order(("inner", 8, ("load", "call")), ("indices", 4, ("load",))) == ["indices", "inner"]
