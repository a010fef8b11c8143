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
