"""`gathernest cache`: report the size of the compiled kernels on disk, and remove them."""

import argparse

from ...kernels.host.dependencies import require
from ...kernels.host.knobs import knobs
from ..console.terminal import DONE, Parser, UsageError, add_option, answer, make_console, positive, print_table

ACTIONS = {
    "info": "how many kernels there are, of these versions and of others, and the limit",
    "prune": "remove the least recently used ones beyond the limit",
    "clear": "remove all of them",
}
EXAMPLES = """examples:
  gathernest cache
  gathernest cache info --json
  gathernest cache prune --limit-mb 100
  gathernest cache clear

Tuning records and calibrations stay."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    about = "; ".join(f"{name}: {text}" for name, text in ACTIONS.items())
    add_option(parser, "[ACTION]", f"{about} (default: info)", choices=list(ACTIONS), default="info")
    limit = f"of prune: megabytes that stay (default: GATHERNEST_CACHE_LIMIT_MB, {knobs.cache_limit_mb})"
    add_option(parser, "--limit-mb N", limit, type=positive)
    add_option(parser, "--json")


def run(options: argparse.Namespace) -> int:
    """Run the command, and report the kernels that are left."""
    if options.limit_mb is not None and options.action != "prune":
        raise UsageError(f"--limit-mb is for gathernest cache prune, got {options.action}; leave it out")
    require("numba", "llvmlite")
    from ...kernels.host.cache_folder import cache_folder, why_not_writable
    from ...kernels.runtime.compile_service import compiling_processes
    from ...kernels.runtime.disk_cache import MEGABYTE, prune, usage

    limit_mb = options.limit_mb or knobs.cache_limit_mb
    removed = [] if options.action == "info" else prune(0 if options.action == "clear" else limit_mb * MEGABYTE)
    problem = why_not_writable(cache_folder())
    facts = {
        "folder": str(cache_folder()),
        "writable": problem is None,
        "limit_mb": limit_mb,
        **usage(),
        "compiling_processes": compiling_processes(),
        "removed": len(removed),
        "removed_bytes": sum(entry.size_bytes for entry in removed),
    }

    def counted(entries: int, size_bytes: int) -> str:
        return f"{entries} kernel{'' if entries == 1 else 's'}, {size_bytes / MEGABYTE:.1f} MB"

    processes = facts["compiling_processes"]
    rows = {
        "removed": counted(facts["removed"], facts["removed_bytes"]) if options.action != "info" else "",
        "folder": f"{facts['folder']}{'' if problem is None else f' (cannot be written: {problem})'}",
        "these versions": counted(facts["entries"], facts["size_bytes"]),
        "other versions": counted(facts["entries_of_other_versions"], facts["size_bytes_of_other_versions"]),
        "compiled now": f"{len(processes)}, by process {', '.join(map(str, processes))}" if processes else "",
        "limit": f"{limit_mb} MB",
    }
    shown = [(f"{name} ", text) for name, text in rows.items() if text]
    answer(options.json, facts, lambda: print_table(make_console(), ("", ""), shown))
    return DONE
