"""Sentences for the errors of webhooks."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_chat_secret": _("This is not the secret of a bot. Copy it from the chat: up to %(max)s visible characters."),
    "bad_topic": _("This is not a topic. Write a kind such as job, or a kind and an event such as job.failed."),
}
ERROR_MESSAGES = {
    "user_limit.webhooks": _("There are %(used)s of at most %(limit)s webhooks. Delete one first."),
    "webhook_off": _("This webhook is disabled. Enable it first."),
}
