"""What became of a revision, in words."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from jobs.reason_messages import describe_end
from portal.wording.errors import describe_stored_refusal
from services.canaries.messages import describe_breach
from services.canaries.trials import WENT_BACK


def describe_why(why: Mapping[str, Any] | None) -> str:
    """Say why its last replica ended by itself or was refused, or why it went back as a canary; "" for neither.

    why: as `services.models.Revision` stores it.
    """
    if not why:
        return ""
    if why["code"] == WENT_BACK:
        return _("It went back as a canary. %(breach)s") % {"breach": describe_breach(why)}
    if why["code"] == "crashed":
        return _("%(job)s: %(end)s") % {"job": why["job"], "end": describe_end(why["reason"])}
    return describe_stored_refusal(why)
