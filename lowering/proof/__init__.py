"""Proofs that passes are right, for all sizes and all values of indices: sets by islpy, bit-vectors by z3."""

from ...ir.errors import DependencyError

try:
    import islpy  # noqa: F401
    import z3  # noqa: F401
except ModuleNotFoundError as error:
    raise DependencyError(f"proofs need {error.name}; install it: pip install 'gathernest[prove]'") from None
