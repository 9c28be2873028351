"""Sentences for the errors of schedules."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_cron": _(
        "“%(got)s” is not a valid cron line. Write five fields: minute, hour, day, month and weekday, such as "
        "30 2 * * 1-5 for 02:30 on weekdays."
    ),
    "cron_never": _("“%(got)s” names a day that never comes. Change day, month or weekday."),
    "job_beside_notebook": _("A schedule submits a job or starts a notebook. Leave one of the two out."),
    "overlap_of_notebook": _("A notebook that is open already is left as it is. Leave overlap out."),
    "start_at_in_schedule": _("A schedule decides when its jobs start. Leave start_at out of the job file."),
    "stop_without_notebook": _("Only a notebook stops at a set time. Give a job max_time in its file instead."),
    "token_in_schedule": _(
        "A schedule whose jobs have a token of their own is not made or changed by a token. Do it on the page "
        "Schedules, or leave token out of the job file."
    ),
    "unknown_notebook": _("You have no notebook “%(got)s”. Name one of yours by its id or its name."),
    "until_has_passed": _("No time of this schedule is left before its end. Choose a later end, or leave it out."),
}
ERROR_MESSAGES = {
    "user_limit.schedules": _("You have %(used)s schedules, which is the most. Delete one first."),
}
