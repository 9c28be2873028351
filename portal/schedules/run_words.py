"""What came of a run of a schedule, in words for page, API and mail."""

from collections.abc import Mapping
from typing import Any

from common.error_messages import fill_gaps
from common.errors import FieldError, InvalidInput, PlatformError
from portal.wording.errors import describe_refusal
from schedules.models import Outcome, ScheduledRun
from schedules.skip_messages import SKIP_MESSAGES


def describe_why(run: ScheduledRun) -> str:
    """Say why a run was left out or refused; "" of one that was submitted or is due."""
    if not run.why:
        return ""
    if run.outcome == Outcome.SKIPPED:
        return str(SKIP_MESSAGES[run.why["code"]]) % fill_gaps(run.why.get("params", {}))
    return describe_stored_refusal(run.why)


def describe_stored_refusal(why: Mapping[str, Any]) -> str:
    """Say a refusal of which schedules.firing kept what its sentence is made of."""
    params = why.get("params", {})
    if errors := why.get("errors"):
        return describe_refusal(InvalidInput([FieldError(**one) for one in errors]))
    return describe_refusal(PlatformError(why.get("code", ""), **params))
