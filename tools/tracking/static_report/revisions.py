"""The static reports that revisions have in the repository, and what differs between two of them."""

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


def difference(before: str, after: str) -> list[str]:
    """Return the lines that explain what differs between the reports of two revisions; none where nothing does.

    Raises:
        RevisionError: as for `report_at`, or one of them has no report.
        StaticFileError: as for `report_at`.
    """
    from .compare import differences
    from .explain import explained

    reports = []
    for revision in (before, after):
        report = report_at(revision)
        if report is None:
            raise RevisionError(f"revision {revision} has no {COMMITTED}, as it is older than the static report")
        reports.append(report)
    old, new = reports
    return list(explained(differences(old, new), old.versions, new.versions))
