"""What a fresh process waits for."""

from . import isolated  # noqa: F401

GATHER = "import numpy as np, gathernest as gn; gn.gather(np.arange(20, dtype='f4').reshape(5, 4), [0, 2])"


class Start:
    """From the start of the statement; Python has started."""

    number = 1
    rounds = 2
    repeat = (3, 6, 3.0)
    warmup_time = 0

    def timeraw_import(self) -> str:
        return "import gathernest"

    def timeraw_first_gather_cached(self) -> str:
        return GATHER

    def timeraw_first_gather(self) -> str:
        return f"import tempfile, os; os.environ['GATHERNEST_CACHE_DIR'] = tempfile.mkdtemp(); {GATHER}"
