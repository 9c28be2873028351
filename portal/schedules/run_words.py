"""What came of a run of a schedule, in words for page, API and mail."""

from common.error_messages import fill_gaps
from portal.wording.errors import describe_stored_refusal
from schedules.models import Outcome, ScheduledRun
from schedules.skip_messages import SKIP_MESSAGES


def describe_why(run: ScheduledRun) -> str:
    """Say why a run was left out or refused; "" of one that was submitted or is due."""
    if not run.why:
        return ""
    if run.outcome == Outcome.SKIPPED:
        return str(SKIP_MESSAGES[run.why["code"]]) % fill_gaps(run.why.get("params", {}))
    return describe_stored_refusal(run.why)
