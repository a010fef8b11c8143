"""Elements of every dtype: bytes are moved, never converted; references go by their positions."""

import tracemalloc

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd

pytestmark = pytest.mark.usefixtures("serial")


OBJECTS = np.array([["a", None, 3], [{"k": 1}, (), "z"]], object)


def test_objects_are_not_compared_or_asked_for_their_truth():
    class Touchy:
        def __bool__(self):
            raise AssertionError

        __eq__ = __lt__ = __bool__
        __hash__ = object.__hash__

    items = np.array([Touchy(), Touchy()], object)
    assert gn.gather(items, [1])[0] is items[1]


def test_objects_are_kept_alive_and_released():
    import sys

    item = object()
    data = np.array([item], object)
    before = sys.getrefcount(item)
    got = gn.gather(data, [0, 0, 0])
    assert sys.getrefcount(item) == before + 3
    del got
    assert sys.getrefcount(item) == before


@pytest.mark.draw(8)
@pytest.mark.parametrize("bounds", ["error", "zero", "clip", "wrap"])
@pytest.mark.parametrize("step", [1, -1], ids=["packed", "reversed"])
@pytest.mark.parametrize(
    ("operator", "indices"),
    [
        (Gather(1), [[3, 0], [-1, 2]]),
        (Gather(2, 1), [[4], [0], [-5]]),
        (GatherNd(), [[1, 3], [-3, 0]]),
        (GatherNd(1), [[[3, 1]], [[0, 4]], [[-1, -1]]]),
        (GatherElements(1), [[[3, 0, 1]], [[0, -4, 2]]]),
    ],
    ids=str,
)
def test_references_are_gathered_as_their_numbers_are(operator, indices, step, bounds):
    numbers = np.arange(1, 61).reshape(3, 4, 5)[:, ::step]
    names = np.vectorize(lambda number: str(number) if number else "", [object])
    far = np.array(indices) if bounds == "error" else np.array(indices) * 3
    gather, options = getattr(gn, operator.name), {"bounds": bounds, **operator.attributes()}
    wanted = names(gather(numbers, far, **options)).tolist()
    assert gather(names(numbers), far, **options).tolist() == wanted
    out = np.empty(np.shape(wanted), object)
    assert gather(names(numbers), far, out=out, **options) is out
    assert out.tolist() == wanted


@pytest.mark.parametrize("strings", [np.dtype(object), np.dtypes.StringDType()], ids=["object", "strings"])
@pytest.mark.parametrize("step", [1, -2])
def test_references_of_a_large_table_are_gathered_in_memory_of_the_result(strings, step):
    data = np.zeros((1000, 1000), strings)[:, ::step]
    data[7, 3] = "seven"
    calls = (gn.gather, data, [[7, -1]]), (gn.gather_nd, data, [[7, 3]]), (gn.gather_elements, data, [[0, 7]])
    tracemalloc.start()
    results = [call(*arguments) for call, *arguments in calls]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert results[0][0, 0, 3] == results[1][0] == "seven"
    assert peak < 1 << 20
