"""What a gather means, as functions of shapes: attributes, shapes, and the words of every rejection."""

from gathernest.ir.semantics import reaches_past


def test_index_type_reaches_past_an_axis_it_can_leave():
    assert reaches_past(127, 127)
    assert not reaches_past(127, 128)
    assert reaches_past(127, None)
