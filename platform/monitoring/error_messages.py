"""Sentences of monitoring's errors."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "idle_act_without_warning": _("Something is done only after a warning. Set the minutes of the warning, too."),
    "idle_not_in_order": _("Each step comes later than the one before it. Choose more than %(min)s minutes."),
    "idle_only_notebooks": _("Only a notebook can go on without its GPU. Choose to stop the job, or only to tell."),
    "idle_then_without_time": _("Set after how many minutes it is done, or choose only to tell."),
    "idle_window_too_long": _("Only the last %(max)s days are kept. Choose fewer."),
    "time_not_before": _("%(field)s must be before the end, %(to)s."),
    "time_too_long": _("At most %(most_days)s days can be asked for at once. Begin later, or end earlier."),
    "unknown_metric": _("There is no metric “%(got)s”. Choose of: %(known)s."),
}
ERROR_MESSAGES = {
    "not_idle": _("It is not idle now, so there is nothing to do."),
    "nothing_released": _("%(name)s has not lost its GPU. Start it, and it has what its settings say."),
    "nudged_lately": _("Its owner was asked within the last hour. Wait for an answer, or write to them."),
    "snoozes_spent": _(
        "It was kept %(max)s times within a day, which is the most. Use it, or ask a lead for an exemption."
    ),
}
