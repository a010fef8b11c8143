"""What `import gathernest` gives, and what it does not import."""

import inspect
import re
from pathlib import Path

import pytest

import gathernest as gn

HEAVY = ["numpy", "numba", "llvmlite", "xdsl", "ml_dtypes", "rich", "onnx"]


def test_import_imports_nothing_heavy(python):
    out = python(f"""
        import sys, gathernest
        print([name for name in {HEAVY} if name in sys.modules])
    """)
    assert out.strip() == "[]"


def test_reading_knobs_schedules_and_errors_imports_neither_numba_nor_xdsl(python):
    out = python("""
        import sys, gathernest as gn
        gn.knobs.num_threads, gn.Schedule(), gn.BoundsError, gn.ops, gn.gather, gn.ArraySpec((2, 3), "float32")
        print([name for name in ("numba", "llvmlite", "xdsl") if name in sys.modules])
    """)
    assert out.strip() == "[]"


def test_names_of_modules_without_libraries_import_no_logging(python):
    names = [name for name, home in gn._HOMES.items() if home in gn._WITHOUT_LIBRARIES]
    assert "gather" in names
    out = python(f"""
        import sys, gathernest as gn
        print([name for name in {names} if getattr(gn, name) and "logging" in sys.modules])
    """)
    assert out.strip() == "[]"


@pytest.mark.parametrize("name", gn.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert name in dir(gn)
    value = getattr(gn, name)
    assert isinstance(value, str) or inspect.getdoc(value)


def test_the_stub_has_the_same_names_from_the_same_modules():
    stub = Path(gn.__file__).with_suffix(".pyi").read_text("utf-8")
    imports = re.findall(r"^from \.(\S+) import (\w+) as \2$", stub, re.M)
    assert len(imports) == stub.count("import") and {name: home for home, name in imports} == gn._HOMES | gn._ATTACHED


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'gathernest' has no attribute 'gahter'"):
        gn.gahter  # noqa: B018


def test_star_import_gives_the_public_names(python):
    out = python("from gathernest import *; print(gather([1, 2, 3], [2]).tolist(), BoundsError.__name__)")
    assert out.strip() == "[3] BoundsError"


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("BoundsError", IndexError),
        ("InvalidGatherError", ValueError),
        ("IndexTypeError", TypeError),
        ("ScheduleError", ValueError),
        ("CompileError", RuntimeError),
        ("InternalError", RuntimeError),
        ("DependencyError", ImportError),
    ],
)
def test_every_error_is_a_gathernest_error_and_of_the_builtin_kind(name, builtin):
    error = getattr(gn, name)
    assert issubclass(error, gn.GathernestError)
    assert issubclass(error, builtin)


def test_a_first_gather_with_a_cached_kernel_imports_no_xdsl(python):
    code = """
        import sys, gathernest as gn
        print(gn.gather([1.5, 2.5, 3.5], [2, 0]).tolist(), "xdsl" in sys.modules)
    """
    python(code)
    assert python(code).strip() == "[3.5, 1.5] False"


def test_a_cached_kernel_runs_where_xdsl_is_not_installed(python):
    code = "import gathernest as gn; print(gn.gather([1.5, 2.5, 3.5], [2, 0]).tolist())"
    python(code)
    assert python(f"import sys; sys.modules['xdsl'] = None\n{code}").strip() == "[3.5, 1.5]"
