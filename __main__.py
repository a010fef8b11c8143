"""`python -m gathernest` is the command `gathernest`."""

import sys

from .tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
