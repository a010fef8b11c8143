"""The commits that results are shown for."""

from dataclasses import dataclass

from ....kernels.host.checkout import RevisionError, git
from ...console.terminal import UsageError


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the checkout; the date as YYYY-MM-DD."""

    name: str
    date: str
    subject: str

    def to_json(self) -> dict[str, str]:
        """Return it as JSON can hold it."""
        return {"commit": self.name, "date": self.date, "subject": self.subject}


def commits_of(range_: str) -> list[Commit]:
    """Return the commits of a range, such as `v1.0..main`, or a revision with all before it, oldest first.

    Raises:
        UsageError: there is no git or no checkout, or the range names a revision that does not exist.
    """
    try:
        said = git(
            *("log", "--reverse", "--topo-order", "--format=%H%x09%cs%x09%s", "--end-of-options", range_, "--"),
            otherwise=f"there is no revision or range {range_!r}; name a commit, branch or tag, or two with .. between",
        )
    except RevisionError as error:
        raise UsageError(str(error)) from None
    return [Commit(*line.split("\t", 2)) for line in said.splitlines()]
