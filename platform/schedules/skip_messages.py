"""Sentences for why a run of a schedule was left out."""

from django.utils.translation import gettext_lazy as _

SKIP_MESSAGES = {
    "missed": _("The platform was down at this time."),
    "notebook_open": _("The notebook was open already as %(job)s, and was left as it is."),
    "still_open": _("%(job)s of an earlier run had not ended."),
    "stop_has_passed": _("The platform was down until after the time at which the notebook stops."),
    "suspended": _("The schedule was suspended before the job could be submitted."),
}
