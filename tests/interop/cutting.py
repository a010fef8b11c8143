"""A check of models that are cut at their gathers, for tests of several files."""

import dataclasses

import gathernest as gn
from gathernest.interop.models.model import has_same_bytes


def check_gathers(model, inputs, kinds):
    """Check which gathers a model has that can run here, and that running them here gives the bytes of the runtime."""
    loaded = gn.load(model)
    runtime = loaded.runtime
    movable = [found for found in runtime.gathers if not found.remark]
    assert [found.kind for found in movable] == kinds
    wanted = runtime.run(inputs)
    for chosen in [movable, *[[one] for one in movable]] if movable else []:
        ran = []
        counted = [_counting(found, ran) for found in chosen]
        assert all(map(has_same_bytes, runtime.cut(counted)(inputs), wanted))
        assert ran
    names = dict(zip(loaded.outputs, wanted, strict=True))
    assert all(has_same_bytes(array, names[name]) for name, array in loaded.run(inputs).items())


def _counting(found, ran):
    """Return a gather that says when it has run here to its end."""

    def compute(*operands):
        result = found.compute(*operands)
        ran.append(found.node)
        return result

    return dataclasses.replace(found, compute=compute)
