"""The picture of a nest at every level."""

import gathernest as gn
from gathernest.ir.context import parse_module
from gathernest.ir.print_nest import print_loop_nest

KERNEL = gn.compile("gather", "2x50x6xf32", "40xi64", axis=1, schedule="parallelize-loops{loops=outer}")


def picture(stage: str) -> str:
    return print_loop_nest(parse_module(KERNEL.stages[stage]))


def test_nest_as_the_operator_gives_it():
    assert (
        picture("lower-gather-to-nest")
        == """\
for batch(b) in 0..n_batch:
  for outer(o) in 0..n_outer:
    for indices(i) in 0..n_indices:
      for inner(j) in 0..n_inner:
        index = indices[b, i]
        position, valid = resolve(index, n_axis, error)
        out[b, o, i, j] = data[b, o, position, j] where valid
"""
    )


def test_scheduled_nest_shows_its_check_and_what_is_parallel():
    assert (
        picture("hoist-invariants")
        == """\
n_outside = sum of for check_indices(i) in 0..n_indices:
  index = indices[0, i]
  yield (index + (n_axis & (index >> 63))) >=u n_axis
if n_outside == 0:
  parallel for outer(o) in 0..n_outer:
    for indices(i) in 0..n_indices:
      index = indices[0, i]
      wrapped = index + (n_axis & (index >> 63))
      for inner(j) in 0..n_inner:
        out[0, o, i, j] = data[0, o, wrapped, j]
return n_outside
"""
    )


def test_loops_keep_their_names():
    assert "parallel for outer(o) in 0..n_outer:" in picture("cse")
    assert "for inner(j) in 0..n_inner:" in picture("cse")


def test_operator_has_no_loops_yet():
    assert picture("operator") == "no loops yet; they come with lower-gather-to-nest\n"


def test_components_of_a_tuple_have_names_of_their_own():
    kernel = gn.compile("gather_nd", "20x30x8xf32", "9x2xi64", bounds="clip", schedule=gn.Schedule())
    text = print_loop_nest(parse_module(kernel.stages["lower-gather-to-nest"]))
    assert "position_1, valid_1 = resolve(index_1, n_axis_1, clip)" in text
    assert "data[b, position, position_1, j] where (valid & valid_1)" in text
