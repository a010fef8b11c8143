from gathernest.lowering.provenance.source_loops import loop_around

SOURCE = """\
def copy_tile(k, n_indices, data):
    i_o = k * 256
    for i in range(i_o, n_indices):  # indices_i
        index = load_i64(indices, 8 * i)
        for j in range(0, 64, 8):  # inner
            element = load_v8xi32(data, index + j)
            store_v8xi32(out, i + j, element)
        for j_1 in range(60, 64):  # inner_rest
            store_i32(out, i + j_1)
    return 0
""".splitlines()


def test_a_loop_is_the_outermost_whose_own_line_is_among_its_lines():
    assert loop_around(SOURCE, [6, 7, 6, 7, 5, 3]) == ("indices_i", 4)  # `inner` is unrolled
    assert loop_around(SOURCE, [6, 7, 5]) == ("inner", 8)
    assert loop_around(SOURCE, [8, 9, 9]) == ("inner_rest", 8)
    assert loop_around(SOURCE, [9, 4, 4, 4, 8]) == ("inner_rest", 8)  # instructions of the loop around moved inside


def test_a_loop_without_its_own_line_is_the_one_that_most_lines_stand_in():
    assert loop_around(SOURCE, [6, 7, 4]) == ("inner", 8)
    assert loop_around(SOURCE, [4]) == ("indices_i", 4)


def test_lines_in_no_loop_have_no_name():
    assert loop_around(SOURCE, [2, 10]) == ("", 0)
    assert loop_around(SOURCE, []) == ("", 0)
