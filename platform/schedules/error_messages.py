"""Sentences for the errors of schedules."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_cron": _(
        "“%(got)s” is not a valid cron line. Write five fields: minute, hour, day, month and weekday, such as "
        "30 2 * * 1-5 for 02:30 on weekdays."
    ),
    "cron_never": _("“%(got)s” names a day that never comes. Change day, month or weekday."),
    "start_at_in_schedule": _("A schedule decides when its jobs start. Leave start_at out of the job file."),
    "token_in_schedule": _(
        "A schedule whose jobs have a token of their own is not made or changed by a token. Do it on the page "
        "Schedules, or leave token out of the job file."
    ),
    "until_has_passed": _("No time of this schedule is left before its end. Choose a later end, or leave it out."),
}
ERROR_MESSAGES = {
    "user_limit.schedules": _("You have %(used)s schedules, which is the most. Delete one first."),
}
