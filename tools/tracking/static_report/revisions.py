"""The static reports that revisions have in the repository."""

from typing import TYPE_CHECKING

from ....kernels.host.checkout import RevisionError, commit_of, git

if TYPE_CHECKING:
    from .report import StaticReport

COMMITTED = "asv_bench/static.json"


def report_at(revision: str) -> "StaticReport | None":
    """Return the report that a commit, branch or tag of the checkout has; None where it has none.

    Raises:
        RevisionError: there is no git, no checkout, or no such revision.
        StaticFileError: the report is none that can be read.
    """
    from .report import read_report

    commit = commit_of(revision)
    try:
        text = git("show", f"{commit}:{COMMITTED}", otherwise="")
    except RevisionError:
        return None
    return read_report(text, f"{COMMITTED} of {revision}")
