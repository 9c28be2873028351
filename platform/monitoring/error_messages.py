"""Sentences of monitoring's errors."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "time_not_before": _("%(field)s must be before the end, %(to)s."),
    "time_too_long": _("At most %(most_days)s days can be asked for at once. Begin later, or end earlier."),
    "unknown_metric": _("There is no metric “%(got)s”. Choose of: %(known)s."),
}
