"""Arguments that other functions and libraries have: the error names the right one, and a signature is clean."""

import inspect
import re

import numpy as np
import pytest

import gathernest as gn

DATA = np.arange(24.0).reshape(2, 3, 4)
MODES = "bounds=: 'error', 'zero', 'clip', 'wrap', 'unchecked' or gathernest.Fill(value)"
BY_POSITION = "; only data, indices, axis go by position"
MEANT = {
    "gather": ([0], {"dim": f"axis=, as NumPy calls it{BY_POSITION}", "mode": MODES}),
    "gather_nd": ([[0]], {"dim": "tuples of indices, whose last dimension", "mode": MODES}),
    "gather_elements": ([[[0]]], {"dim": f"axis=, as NumPy calls it{BY_POSITION}", "mode": MODES}),
    "gather_reduce": (
        [[0]],
        {
            "dim": "data with that axis first: numpy.moveaxis",
            "mode": "reduce=: 'sum', 'mean'",
            "include_last_offset": "offsets[:-1]: the last bag ends with the indices",
            "per_sample_weights": "weights=",
        },
    ),
    "take": ([0], {"dim": "axis=, as NumPy calls it", "bounds": "mode=: 'raise'"}),
    "gather_grad": ([0], {"dim": "axis=, as NumPy calls it", "mode": MODES}),
}


@pytest.mark.parametrize("name", MEANT)
def test_an_argument_of_another_function_names_the_right_one(name):
    function, (indices, meant) = getattr(gn, name), MEANT[name]
    shape = ((2, 3, 4),) if name == "gather_grad" else ()
    has_axis = "axis" in inspect.signature(function).parameters
    kept = "indices of one more dimension" if has_axis else "the result to numpy.expand_dims"
    for argument, text in {**meant, "keepdim": kept}.items():
        message = f"{name} has no argument '{argument}'; pass {text}"
        with pytest.raises(gn.InvalidGatherError, match=re.escape(message)):
            function(DATA, indices, *shape, **{argument: 0})


def test_names_of_elsewhere_are_not_shown_and_take_no_position():
    assert [*inspect.signature(gn.gather).parameters] == ["data", "indices", "axis", "batch_dims", "bounds", "out"]
    kinds = {each.name: each.kind for each in inspect.signature(gn.gather_elements).parameters.values()}
    assert kinds["bounds"] is kinds["out"] is inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(gn.InvalidGatherError, match="only data, indices, axis go by position"):
        gn.gather(DATA, [0], 0, 0)  # pyright: ignore[reportArgumentType]
