"""Which thread of a team has an iteration of a parallel loop, as `lowering/native` shares them."""

from collections.abc import Iterable

from .steps import Trip


def thread_of(iteration: int, iterations: int, threads: int) -> int:
    """Return which thread has an iteration of a parallel loop in its range; 0 is the caller.

    Each of the threads, or of as many as there are iterations, begins with an equal and contiguous range, and takes
    iterations of others when it is done.
    """
    parts = max(min(threads, iterations), 1)
    return ((iteration + 1) * parts - 1) // max(iterations, 1)


def said_of_thread(trips: Iterable[Trip], threads: int) -> str:
    """Return in words which of so many threads has the iteration that parallel loops are in.

    Args:
        trips: of the parallel loops around an operation, outermost first.
        threads: how many share them.
    """
    iteration, iterations = 0, 1
    for trip in trips:
        iteration, iterations = iteration * trip.count + trip.number, iterations * trip.count
    if min(threads, iterations) == 1:
        return "the calling one, since there is one thread or one iteration"
    thread = thread_of(iteration, iterations, threads)
    parts = min(threads, iterations)
    first, last = iterations * thread // parts + 1, iterations * (thread + 1) // parts
    span = f"iteration {first}" if first == last else f"iterations {first} to {last}"
    return f"{thread} of 0 to {threads - 1} begins with {span} of {iterations}; one that is done may take it over"
