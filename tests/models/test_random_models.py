"""Random graphs of gathers and shape operators: every stage, the run and ONNX's evaluator give the same bytes."""

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import gathernest as gn


class Graph:
    """Grows node by node from one input, whose values it carries along to know what is legal next."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        shape = tuple(int(size) for size in self.rng.integers(1, 5, self.rng.integers(1, 4)))
        self.value = self.rng.integers(0, 100, shape).astype(np.float32)
        self.nodes, self.weights, self.inputs, self.arrays = [], {}, {}, {}
        self.name = self.input(self.value, dynamic=bool(self.rng.integers(2)))
        for _ in range(self.rng.integers(2, 9)):
            steps = [
                self.gather,
                self.gather,
                self.gather_nd,
                self.elements,
                self.reshape,
                self.unsqueeze,
                self.squeeze,
            ]
            steps += [self.flatten, self.double, self.cast]
            steps[self.rng.integers(len(steps))]()

    def input(self, array, *, dynamic):
        name = f"in{len(self.inputs)}"
        element = "i64" if array.dtype == np.int64 else "f32"
        sizes = ("?" if dynamic and self.rng.integers(2) else str(size) for size in array.shape)
        self.inputs[name], self.arrays[name] = "x".join([*sizes, element]), array
        return name

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def add(self, kind, *operands, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(make_node(kind, list(operands), [name], name=f"n{len(self.nodes)}", **attributes))
        return name

    def indices(self, size, shape):
        values = self.rng.integers(-size, size, shape)
        if self.rng.integers(3) == 0 and values.ndim == 1:
            step = int(self.rng.choice([-1, 1]))
            values = np.arange(size)[::step][: max(1, len(values))]
        is_input = self.rng.integers(3) == 0
        return values, self.input(values, dynamic=False) if is_input else self.weight(values)

    def gather(self):
        if self.value.ndim == 0:
            return self.unsqueeze()
        axis = int(self.rng.integers(self.value.ndim))
        shape = tuple(int(size) for size in self.rng.integers(1, 4, self.rng.integers(0, 3)))
        values, name = self.indices(self.value.shape[axis], shape)
        self.name = self.add("Gather", self.name, name, axis=axis)
        self.value = np.take(self.value, values, axis)
        return None

    def gather_nd(self):
        if self.value.ndim < 2 or self.value.size == 0:
            return self.gather()
        pair = self.rng.integers(0, self.value.shape[:2], (3, 2))
        self.name = self.add("GatherND", self.name, self.weight(pair))
        self.value = self.value[pair[:, 0], pair[:, 1]]
        return None

    def elements(self):
        if self.value.ndim == 0:
            return self.unsqueeze()
        axis = int(self.rng.integers(self.value.ndim))
        shape = list(self.value.shape)
        shape[axis] = 2
        values, name = self.indices(self.value.shape[axis], tuple(shape))
        if values.shape != tuple(shape):
            return self.gather()
        self.name = self.add("GatherElements", self.name, name, axis=axis)
        self.value = np.take_along_axis(self.value, values, axis)
        return None

    def reshape(self):
        sizes = [-1, *self.value.shape[:-2]] if self.value.ndim > 1 else [1, -1]
        self.name = self.add("Reshape", self.name, self.weight(np.array(sizes)))
        self.value = self.value.reshape(sizes)

    def flatten(self):
        """Keep the first size as the graph computes it, and merge the others."""
        if self.value.ndim < 2:
            return self.reshape()
        sizes = self.add("Shape", self.name)
        first = self.add("Gather", sizes, self.weight(np.array(int(self.rng.choice([0, -self.value.ndim])))))
        unsqueezed = self.add("Unsqueeze", first, self.weight(np.array([0])))
        wanted = self.add("Concat", unsqueezed, self.weight(np.array([-1])), axis=0)
        self.name = self.add("Reshape", self.name, wanted)
        self.value = self.value.reshape(self.value.shape[0], -1)
        return None

    def unsqueeze(self):
        if self.value.ndim > 4:
            return self.reshape()
        axis = int(self.rng.integers(-self.value.ndim - 1, self.value.ndim + 1))
        self.name = self.add("Unsqueeze", self.name, self.weight(np.array([axis])))
        self.value = np.expand_dims(self.value, axis)
        return None

    def squeeze(self):
        axes = [axis for axis, size in enumerate(self.value.shape) if size == 1]
        if axes:
            self.name = self.add("Squeeze", self.name, self.weight(np.array(axes)))
            self.value = np.squeeze(self.value, tuple(axes))

    def double(self):
        if self.value.ndim > 0 and self.value.size < 500:
            axis = int(self.rng.integers(self.value.ndim))
            self.name = self.add("Concat", self.name, self.name, axis=axis - self.value.ndim)
            self.value = np.concatenate([self.value, self.value], axis)

    def cast(self):
        kind, dtype = (TensorProto.INT32, np.int32) if self.value.dtype != np.int32 else (TensorProto.FLOAT, np.float32)
        self.name = self.add("Cast", self.name, to=kind)
        self.value = self.value.astype(dtype)

    def model(self, make):
        element = "i32" if self.value.dtype == np.int32 else "f32"
        self.nodes.append(make_node("Identity", [self.name], ["y"]))
        return make(self.nodes, self.inputs, {"y": "x".join(["?"] * self.value.ndim + [element])}, self.weights)


@pytest.mark.draw(5)
@pytest.mark.parametrize("seed", range(30))
def test_random_graph_gives_the_same_bytes_everywhere(load, make, seed):
    graph = Graph(seed)
    with gn.knobs.scope(interpret=True):
        model = load.checked(graph.model(make), graph.arrays)
        assert model.run(graph.arrays)["y"].tobytes() == graph.value.tobytes()
