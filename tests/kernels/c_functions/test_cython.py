"""The Cython function of docs/function_pointers.md calls a kernel by its address, where Cython is installed."""

import importlib.util
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.errors import DependencyError
from gathernest.lowering.programs import c_compiler, run_c_compiler

PAGE = Path(__file__).resolve().parents[3] / "docs" / "function_pointers.md"


@pytest.fixture
def module(tmp_path):
    """The page's module, compiled."""
    pytest.importorskip("Cython", reason="Cython is not installed")
    try:
        compiler = c_compiler("Cython")
    except DependencyError as error:
        pytest.skip(str(error))
    found = re.search(r"```cython\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    source, c_file = tmp_path / "lookup.pyx", tmp_path / "lookup.c"
    source.write_text(found[1])
    subprocess.run([sys.executable, "-m", "cython", "-3", str(source)], check=True)
    made = tmp_path / f"lookup{sysconfig.get_config_var('EXT_SUFFIX')}"
    includes = f"-I{sysconfig.get_path('include')}"
    run_c_compiler(compiler, ["-shared", "-fPIC", includes, str(c_file)], made, "compile the module")
    spec = importlib.util.spec_from_file_location("lookup", made)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_cython_calls_a_kernel_by_its_address(module):
    table, out = np.arange(36, dtype=np.float32).reshape(9, 4), np.zeros((6, 4), np.float32)
    indices = np.array([0, 8, -9, -1, 3, 3])
    kernel = gn.compile("gather", table, indices)
    assert module.lookup(kernel.address, table, indices, out) == 0
    assert out.tobytes() == table[indices].tobytes()
