"""The picture of a nest at every level."""

import pytest

import gathernest as gn
from gathernest.ir.modules.context import parse_module
from gathernest.ir.modules.pseudocode import print_loop_nest

KERNEL = gn.compile("gather", "2x50x6xf32", "40xi64", axis=1, schedule="parallelize-loops{loops=outer}")


def picture(stage: str) -> str:
    return print_loop_nest(parse_module(KERNEL.stages[stage]))


def test_nest_as_the_operator_gives_it():
    assert (
        picture("lower-to-nest")
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
twice = n_axis + n_axis
n_outside = sum of for check_indices(i) in 0..n_indices:
  index = indices[0, i]
  yield (index + n_axis) >=u twice
if n_outside == 0:
  last = n_axis - 1
  parallel for outer(o) in 0..n_outer:
    for indices(i) in 0..n_indices:
      index = indices[0, i]
      lowered = minui(minui(index + n_axis, index), last)
      for inner(j) in 0..n_inner:
        out[0, o, i, j] = data[0, o, lowered, j]
return n_outside
"""
    )


def test_loops_keep_their_names():
    assert "parallel for outer(o) in 0..n_outer:" in picture("cse")
    assert "for inner(j) in 0..n_inner:" in picture("cse")


def test_operator_has_no_loops_yet():
    assert picture("operator") == "no loops yet; they come with lower-to-nest\n"


def test_components_of_a_tuple_have_names_of_their_own():
    kernel = gn.compile("gather_nd", "20x30x8xf32", "9x2xi64", bounds="clip", schedule=gn.Schedule())
    text = print_loop_nest(parse_module(kernel.stages["lower-to-nest"]))
    assert "position_1, valid_1 = resolve(index_1, n_axis_1, clip)" in text
    assert "data[b, position, position_1, j] where (valid & valid_1)" in text


SCHEDULED = """\
whole = n_inner - remui(n_inner, 8)
for indices_o(i_o) in 0..n_indices step 256:
  end = min(i_o + 256, n_indices)
  positions = buffer[256] of i32
  for resolve_indices_i(i_i) in i_o..end:
    index = indices[0, i_i]
    wrapped = index + (n_axis & (index >> 63))
    inside = wrapped <u n_axis
    positions[i_i - i_o] = wrapped if inside else -1
  last = end - 1
  for indices_i(i_i) in i_o..end:
    kept = positions[min(i_i + 16, last) - i_o]
    prefetch data[0, 0, max(kept, 0), 0]
    kept_1 = positions[i_i - i_o]
    inside = kept_1 >= 0
    clamped = max(kept_1, 0)
    for inner(j) in 0..whole step 8:
      out[0, 0, i_i, j:j + 8] = data[0, 0, clamped, j:j + 8] & inside
    for inner_rest(j) in whole..n_inner:
      out[0, 0, i_i, j] = data[0, 0, clamped, j] if inside else 0
"""


def test_vectors_buffers_and_prefetches_have_a_picture():
    schedule = (
        "tile-loops{loops=indices sizes=256},hoist-indices{before=indices_i},vectorize-inner{lanes=8},"
        "prefetch{what=rows loop=indices_i ahead=16 locality=3}"
    )
    kernel = gn.compile("gather", "1000x64xf32", "5000xi64", bounds="zero", schedule=schedule)
    assert print_loop_nest(parse_module(kernel.stages["hoist-invariants"])) == SCHEDULED


@pytest.mark.draw(2)
@pytest.mark.parametrize("stage", ["stream-stores", "hoist-invariants", "lower-nest-to-loops", "cse"])
@pytest.mark.parametrize("lanes", [4, 8])
def test_streamed_elements_have_a_picture(stage, lanes):
    schedule = f"vectorize-inner{{lanes={lanes}}},stream-stores"
    kernel = gn.compile("gather", "1000xf32", "5000xi64", bounds="clip", schedule=schedule)
    text = print_loop_nest(parse_module(kernel.stages[stage]))
    assert f"stream out[0, 0, i:i + {lanes}] = (data[" in text
    assert ("..., data[" in text) == (lanes == 8)
    assert "address of out" in text
