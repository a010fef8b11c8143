"""Times of `gathernest.torch` beside torch: the sizes from which an operator pays, and the large calls of the docs.

    python docs/measurements/torch_sizes.py [--large]

Each row has the time of an operator divided by the time of torch's own function, in CPU time of one thread, by turns.
The sizes in the table of `interop/torch_operators.py` are the sizes from which the ratio is below 1, rounded up.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

Case = tuple[str, Callable[[Any], Any]]


def main() -> None:
    """Print the ratios."""
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    if "--large" in sys.argv[1:]:
        for rows, columns, count in ((100_000, 128, 400_000), (200_000, 64, 4096)):
            _print_ratios(torch, rows, columns, count)
        return
    from gathernest.interop import torch_functions, torch_operators

    for name, row in torch_operators.TABLE.items():  # Every size runs an operator, and no call is tiny.
        torch_operators.TABLE[name] = replace(row, min_elements=0, min_grad_elements=0)
    for name in ("_SELECT", "_GATHER", "_ADD", "_BAGS", "_WIDE_BAGS", "_MAXIMA"):
        row = getattr(torch_functions, name)
        setattr(torch_functions, name, torch_operators.TABLE[row.name])
    torch_functions._MAX_TINY_BYTES = torch_functions._MAX_TINY_SOURCE_BYTES = -1
    torch_functions._MAX_TINY_PICKS_BYTES = -1
    for rows in (1000, 200_000):
        for power in range(12, 21, 2):
            _print_ratios(torch, rows, 64, (1 << power) // 64)


def _print_ratios(torch: Any, rows: int, columns: int, count: int) -> None:
    import gathernest.torch as ours  # pyright: ignore[reportMissingImports]

    for wants_grad in (False, True):
        for name, call in _cases(torch, rows, columns, count, wants_grad):
            functional = torch.nn.functional if "embed" in name else torch
            pair = (lambda call=call: call(ours)), (lambda call=call, module=functional: call(module))
            ratio = _ratio(*pair, rounds=3 if count * columns >> 20 else 15)
            kind = " with its gradient" if wants_grad else ""
            print(f"{rows} x {columns}, {count * columns} elements: {name}{kind} {ratio:.2f}", flush=True)


def _cases(torch: Any, rows: int, columns: int, count: int, wants_grad: bool) -> list[Case]:
    table = torch.randn(rows, columns, requires_grad=wants_grad)
    index = torch.randint(0, rows, (count,))
    each = index[:rows, None].expand(-1, columns).contiguous()
    source = torch.randn(count, columns)

    def differentiated(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(module: Any) -> None:
            table.grad = None
            call(module).sum().backward()

        return run if wants_grad else call

    calls = {
        "index_select": lambda module: module.index_select(table, 0, index),
        "gather": lambda module: module.gather(table, 0, each),
        "take_along_dim": lambda module: module.take_along_dim(table, each, 0),
        "index_add": lambda module: module.index_add(table, 0, index, source),
        "embedding": lambda module: module.embedding(index, table),
        "embedding_bag": lambda module: module.embedding_bag(index.view(-1, 8), table, mode="sum"),
        "embedding_bag of maxima": lambda module: module.embedding_bag(index.view(-1, 8), table, mode="max"),
    }
    return [(name, differentiated(call)) for name, call in calls.items()]


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> float:
    """Return the least time of one call divided by the least time of another, by turns."""
    least = [float("inf")] * 2
    for number in range(rounds + 1):
        for place, call in enumerate((ours, theirs)):
            start = time.process_time_ns()
            call()
            if number:  # The first round compiles.
                least[place] = min(least[place], time.process_time_ns() - start)
    return least[0] / least[1]


if __name__ == "__main__":
    main()
