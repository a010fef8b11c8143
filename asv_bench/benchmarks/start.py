"""What a fresh process waits for."""

from . import isolated  # noqa: F401

GATHER = "import numpy as np, gathernest as gn; gn.gather(np.arange(20, dtype='f4').reshape(5, 4), [0, 2])"

# 60 gathers of 10 to a million rows by 10 to 300,000 indices, by NumPy before their kernels are compiled.
SESSION = """
import os, tempfile
os.environ |= {"GATHERNEST_CACHE_DIR": tempfile.mkdtemp(), "GATHERNEST_COMPILE": "background"}
import numpy as np, gathernest as gn
random = np.random.default_rng(0)
for _ in range(60):
    rows = int(10 ** random.uniform(1, 6))
    columns = max(int(min(10 ** random.uniform(0, 3), 1e7 / rows)), 1)
    count = int(min(10 ** random.uniform(1, 5.5), 1e7 / columns))
    gn.gather(np.ones((rows, columns), np.float32), random.integers(0, rows, count))
"""


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

    def timeraw_session(self) -> str:
        return SESSION
