"""Sentences for the errors of webhooks."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_topic": _(
        "This is no topic. Write a kind such as job, or a kind and what happened to it, such as job.failed."
    ),
}
ERROR_MESSAGES = {
    "webhook_off": _("This webhook is switched off. Switch it on first."),
}
