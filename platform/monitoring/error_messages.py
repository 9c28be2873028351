"""Sentences of monitoring's errors."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "action_untold": _("An action needs a notice first: tell owners and administrators, too."),
    "action_without_machine": _("Only rules about cards and machines can do something to a machine."),
    "alert_window_too_long": _("At most %(most_days)s days. Choose a shorter time."),
    "clears_while_it_holds": _("At this value the rule still holds. Choose one beyond %(threshold)s."),
    "drain_without_card": _("Only rules about cards can take a card out of service."),
    "idle_act_without_warning": _("Something is done only after a warning. Set the minutes of the warning, too."),
    "idle_not_in_order": _("Each step comes later than the one before it. Choose more than %(min)s minutes."),
    "idle_only_notebooks": _("Only a notebook can go on without its GPU. Choose to stop the job, or only to tell."),
    "idle_then_without_time": _("Set after how many minutes it is done, or choose only to tell."),
    "idle_window_too_long": _("Only the last %(max)s days are kept. Choose fewer."),
    "in_no_pool": _("Teams and the platform are in no pool. Leave the pool out."),
    "metric_has_no_history": _("Nothing of this value is kept. A back-test looks at: %(known)s."),
    "nobody_is_told": _("Nobody owns a pool or the platform. Tell administrators, too."),
    "only_for_jobs": _("Only jobs hold a number of cards. Leave it out."),
    "price_twice": _("There is such a price from %(day)s on. Delete it first, or choose another day."),
    "rule_matches_everything": _(
        "The rule would hold for every value, as no value is beyond %(least)s. Choose another threshold."
    ),
    "rule_matches_nothing": _("The rule would never hold, as no value is beyond %(most)s. Choose another threshold."),
    "shipped_rule_metric": _("This rule ships with the platform and keeps what it looks at. Add a rule of your own."),
    "silence_everything": _("This would silence everything. Name a rule, a severity or a subject."),
    "silence_over": _("The silence must end in the future."),
    "silence_too_long": _("A silence lasts %(most_days)s days at most. Choose an earlier end."),
    "stop_without_job": _("Only rules about jobs can stop a job."),
    "time_not_before": _("%(field)s must be before the end, %(to)s."),
    "time_too_long": _("At most %(most_days)s days can be asked for at once. Begin later, or end earlier."),
    "unknown_alert_rule": _("There is no alert rule %(got)s. GET /alert-rules lists them."),
    "unknown_gpu_model": _("No card is of the model “%(got)s”. Choose of: %(known)s."),
    "unknown_metric": _("There is no metric “%(got)s”. Choose of: %(known)s."),
    "window_not_kept": _("Series are kept for %(most_days)s days. Ask for so many at most."),
}
ERROR_MESSAGES = {
    "alert_asks_nothing": _("This alert asks for nothing, or somebody was faster. Reload the page."),
    "alert_did_nothing": _("This alert did nothing that could be undone, or somebody was faster. Reload the page."),
    "alert_ended": _("This alert has ended."),
    "not_idle": _("It is not idle now, so there is nothing to do."),
    "nothing_released": _("%(name)s has not lost its GPU. Start it, and it has what its settings say."),
    "nudged_lately": _("Its owner was asked within the last hour. Wait for an answer, or write to them."),
    "report_mail_twice": _("You get this report already. Delete it first to get it at another hour."),
    "shipped_rule": _("This rule ships with the platform and cannot be deleted. Switch it off instead."),
    "snoozes_spent": _(
        "It was kept %(max)s times within a day, which is the most. Use it, or ask a lead for an exemption."
    ),
    "user_limit.alert_rules": _("There are %(used)s of at most %(limit)s alert rules. Delete one first."),
    "user_limit.prices": _("There are %(used)s of at most %(limit)s prices. Delete old ones first."),
    "user_limit.report_mails": _("You get %(used)s of at most %(limit)s reports by mail. Delete one first."),
    "user_limit.silences": _("You have %(used)s of at most %(limit)s silences. End one first."),
}
