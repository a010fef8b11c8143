"""The names of loops and what they say."""

import pickle
import weakref

import pytest

from gathernest.ir.loop_name import LoopName


@pytest.mark.parametrize(
    ("name", "nest", "role", "induction"),
    [
        ("batch", "", "batch", "b"),
        ("outer_1", "", "outer", "o_1"),
        ("indices_o", "", "indices", "i_o"),
        ("inner_0_i_rest", "", "inner", "j_0_i_rest"),
        ("check_indices_i", "check", "indices", "i_i"),
        ("clear_data_outer", "clear", "outer", "data_outer"),
        ("scale_axis_1", "scale", "axis", "axis_1"),
        ("resolve_indices", "", "resolve", "resolve_indices"),
        ("owners", "", "owners", "owners"),
    ],
)
def test_a_name_says_its_nest_its_role_and_its_induction_variable(name, nest, role, induction):
    assert (LoopName(name).nest, LoopName(name).role, LoopName(name).induction) == (nest, role, induction)


def test_a_dimension_of_data_names_its_loop():
    assert (LoopName("data_inner_0").loop, LoopName("data_inner_0").role) == ("inner_0", "inner")
    assert LoopName("inner_0").loop == "inner_0"


def test_tiles_are_named_after_their_loop():
    name = LoopName("outer_1")
    assert (name.outer_tile, name.inner_tile) == ("outer_1_o", "outer_1_i")
    assert name.outer_tile.is_outer_tile and not name.outer_tile.is_inner_tile
    assert name.inner_tile.untiled == name.untiled == name
    assert name.inner_tile.outer_tile.untiled.untiled == name


def test_parts_of_a_split_loop_are_named_after_it():
    name = LoopName("inner")
    assert (name.remainder, name.prologue, name.cached) == ("inner_rest", "inner_head", "inner_cached")
    assert name.remainder.is_remainder and not name.is_remainder
    assert name.beside("check").nest == "check" and name.beside("check") == "check_inner"


def test_a_name_is_pickled_as_its_text_and_not_with_what_it_remembers():
    name = LoopName("check_indices_o")
    before = pickle.dumps(name)
    assert name.dimension == "indices" and name.untiled.role == "indices"
    assert pickle.dumps(name) == before and type(pickle.loads(before)) is LoopName


def test_names_that_nobody_uses_are_forgotten():
    gone = weakref.ref(LoopName("a_loop_of_this_test"))
    for number in range(5000):
        LoopName(f"indices_{number}")
    assert gone() is None
