"""What came of an action on several jobs, in words."""

from collections import Counter
from collections.abc import Iterable

from django.utils.translation import ngettext

from common.errors import PlatformError
from portal.wording.errors import describe_refusal


def describe_done(verb: str, count: int) -> str:
    """Say of how many jobs a verb was done: stop, retry or label."""
    if verb == "stop":
        words = ngettext("%(count)s job is stopped.", "%(count)s jobs are stopped.", count)
    elif verb == "retry":
        words = ngettext("%(count)s job is queued again.", "%(count)s jobs are queued again.", count)
    else:
        words = ngettext("%(count)s job has its labels.", "%(count)s jobs have their labels.", count)
    return words % {"count": count}


def describe_settled(count: int) -> str:
    """Say of how many jobs there was nothing left to stop."""
    words = ngettext(
        "%(count)s had ended or was asked to stop already.", "%(count)s had ended or were asked to stop already.", count
    )
    return words % {"count": count}


def describe_refusals(refusals: Iterable[PlatformError]) -> str:
    """Say why jobs were left as they are, each reason once, or ""."""
    counts = Counter(describe_refusal(error) for error in refusals)
    return " ".join(
        ngettext("%(count)s job is left as it is: %(why)s", "%(count)s jobs are left as they are: %(why)s", count)
        % {"count": count, "why": why}
        for why, count in counts.items()
    )
