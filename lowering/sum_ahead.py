"""How far ahead a gradient asks for the rows that it adds to. Plain Python."""

AHEAD_BYTES = 4096
MOST_AHEAD = 32
"""Iterations: so many lines are under way at once, and more of them wait for each other."""
MIN_ROW_BYTES = 128
"""Below that the processor sees far enough ahead by itself: rows of 32 bytes in a cache took half as long again."""


def iterations_ahead(row_bytes: int, ahead_bytes: int = AHEAD_BYTES) -> int:
    """Return how many iterations ahead to ask for rows of so many bytes; 0 for not at all."""
    return min(ahead_bytes // row_bytes, MOST_AHEAD) if row_bytes >= MIN_ROW_BYTES else 0
