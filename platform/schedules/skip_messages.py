"""Sentences for why a run of a schedule was left out."""

from django.utils.translation import gettext_lazy as _

SKIP_MESSAGES = {
    "missed": _("The platform was down at this time."),
    "still_open": _("%(job)s of an earlier run had not ended."),
    "suspended": _("The schedule was suspended before the job could be submitted."),
}
