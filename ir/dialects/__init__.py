"""The `gather` and `graph` dialects: operators, gradients, loop nests, shape operators, missing upstream operations."""

import sys

from xdsl.utils.dialect_loader import IRDLDialectFinder


class _Finder(IRDLDialectFinder):
    """xDSL's finder of IRDL files, which finds none where the current folder is gone.

    xDSL's own raises FileNotFoundError there, and so does every import of a module that does not exist.
    """

    def find_spec(self, fullname, path, target=None):
        try:
            return super().find_spec(fullname, path, target)
        except FileNotFoundError:
            return None


for _place, _finder in enumerate(sys.meta_path):
    if type(_finder) is IRDLDialectFinder:
        sys.meta_path[_place] = _Finder(_finder.get_all_dialects)
