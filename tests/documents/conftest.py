"""ONNX's backend suite, with the gathers of its reference evaluator replaced by ours."""

import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gathernest as gn


class Suite:
    """The test cases of `onnx.backend.test` and a way to run their models."""

    def __init__(self) -> None:
        from onnx.backend.test import loader
        from onnx.backend.test.case import node

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module in ("gather", "gatherelements", "gathernd"):
                import_module(f"onnx.backend.test.case.node.{module}")
            self.node_cases = {case.name: case for case in node._NodeTestCases}
            self.converted_cases = {case.name: case for case in loader.load_model_tests(kind="pytorch-converted")}
        self.operators, self.calls = _operators_that_count()

    @property
    def cases_with_a_gather(self) -> list[Any]:
        """The cases of every node whose models hold a gather of any kind; to make all of them takes 5 s."""
        from onnx.backend.test import loader

        kinds = {"Gather", "GatherND", "GatherElements"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = loader.load_model_tests(kind="node")
        return [case for case in cases if any(node.op_type in kinds for node in _nodes(case.model.graph))]

    def run(self, model: Any, inputs: list[Any], *, ours: bool = True) -> list[Any]:
        """Run a model in ONNX's reference evaluator, with our gathers or with its own."""
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(model, new_ops=self.operators if ours else None)
        names = [value.name for value in model.graph.input]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evaluator.run(None, dict(zip(names, inputs, strict=False)))

    def converted(self, name: str) -> tuple[Any, list[Any], list[Any]]:
        """Return the model, the inputs and the outputs of a case that lies in files."""
        import onnx

        folder = Path(self.converted_cases[name].model_dir)
        model, data = onnx.load(folder / "model.onnx"), folder / "test_data_set_0"
        return model, *([_tensor(path) for path in sorted(data.glob(f"{kind}_*.pb"))] for kind in ("input", "output"))


def _operators_that_count() -> tuple[list[type], list[str]]:
    """Return our gathers as operators of the reference evaluator, and the list of the calls they get."""
    from onnx.reference.op_run import OpRun

    calls: list[str] = []

    def operator(name: str, run: Callable) -> type:
        def _run(self: Any, *inputs: Any, **attributes: Any) -> tuple[Any]:
            calls.append(name)
            return (run(*inputs, **{key: value for key, value in attributes.items() if value is not None}),)

        return type(name, (OpRun,), {"op_domain": "", "_run": _run})

    table = {"Gather": gn.ops["onnx.Gather-13"], "GatherND": gn.gather_nd, "GatherElements": gn.gather_elements}
    return [operator(name, run) for name, run in table.items()], calls


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _tensor(path: Path) -> np.ndarray:
    import onnx.numpy_helper

    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_array(tensor)


@pytest.fixture(scope="session")
def suite() -> Suite:
    pytest.importorskip("onnx", reason="onnx is not installed")
    return Suite()
