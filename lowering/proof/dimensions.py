"""Which dimension of out each dimension of an operator's arrays runs along, as the operator's document says."""

from collections.abc import Sequence

from ...ir.operator_spec import Gather, GatherElements, GatherNd, GatherReduce, GatherWeighted, OperatorSpec


def followed(spec: OperatorSpec, rank: int, indices: Sequence[int], out_rank: int) -> dict[str, tuple[int | None, ...]]:
    """Return for each dimension of `data`, `indices` and `out` that of out; None for an indexed one, tuples and bags.

    Args:
        rank: of data.
        indices: the shape of the indices.
    """
    places, out = len(indices), tuple(range(out_rank))
    if isinstance(spec, Gather):
        axis, shared = spec.axis, spec.batch_dims
        data = [dim if dim < axis else dim - 1 + places - shared for dim in range(rank)]
        return {
            "data": (*data[:axis], None, *data[axis + 1 :]),
            "indices": tuple(dim if dim < shared else axis + dim - shared for dim in range(places)),
            "out": out,
        }
    if isinstance(spec, GatherNd):
        shared, length = spec.batch_dims, indices[-1]
        behind = tuple(places - 1 + dim for dim in range(rank - shared - length))
        return {"data": (*range(shared), *[None] * length, *behind), "indices": (*range(places - 1), None), "out": out}
    if isinstance(spec, GatherReduce):
        bags = places - 2 if isinstance(spec, GatherWeighted) else places - 1
        data = (None, *(dim + bags for dim in range(rank - 1)))
        return {"data": data, "indices": (*range(bags), *[None] * (places - bags)), "out": out}
    assert isinstance(spec, GatherElements)
    return {
        "data": tuple(None if dim == spec.axis else dim for dim in range(rank)),
        "indices": tuple(range(places)),
        "out": out,
    }
