"""What a fresh process waits for."""

CALL = "gn.gather(np.arange(20, dtype='f4').reshape(5, 4), [0, 2])"


class Import:
    def timeraw_import(self) -> str:
        return "import gathernest"


class FirstResult:
    """From the start of Python to the first result, which imports NumPy and Numba too."""

    def timeraw_cached(self) -> tuple[str, str]:
        return f"import numpy as np, gathernest as gn; {CALL}", ""

    def timeraw_not_cached(self) -> tuple[str, str]:
        folder = "import tempfile, gathernest as gn; gn.knobs.cache_dir = tempfile.mkdtemp()"
        return f"{folder}\nimport numpy as np; {CALL}", ""
