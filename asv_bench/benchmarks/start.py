"""What a fresh process waits for."""


class Import:
    def timeraw_import(self) -> str:
        return "import gathernest"

    def timeraw_first_cached_call(self) -> tuple[str, str]:
        call = "gn.gather(np.arange(20, dtype='f4').reshape(5, 4), [0, 2])"
        return f"import numpy as np, gathernest as gn; {call}", ""
