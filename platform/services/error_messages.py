"""Sentences for the errors of services."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_service_name": _(
        "“%(got)s” cannot be the name of a service, as it is part of its address. Use up to 40 lower-case letters, "
        "digits and dashes, with a letter or digit first and last."
    ),
    "no_such_revision": _("This service has no such revision. There are: %(known)s."),
    "not_a_service": _("This is the file of a job. Write kind: service, and serve: with the port."),
    "service_keeps_name": _("A service keeps its name and team. Write name: %(name)s, or create another service."),
    "too_many_service_keys": _("A service has at most %(max)s keys. End one that is not used any more."),
}
ERROR_MESSAGES = {
    "no_canary": _("No revision of %(name)s is tried as a canary now, so there is nothing to end early."),
    "service_failing": _("%(name)s is failing: its replicas end by themselves. Its owner can read why on its page."),
    "service_full": _("%(name)s is waking, and %(max)s requests wait already. Try again in a while."),
    "service_key_in_flight": _(
        "This key has %(limit)s requests in flight already, which is its limit. Send the next one when one has ended."
    ),
    "service_key_rate": _(
        "This key has had its %(limit)s requests of this minute, which is its limit. Wait %(retry_after_s)s seconds."
    ),
    "service_opens_to_others": _(
        "This service opens to others: its file says access: %(access)s under serve. Its owner can write access: team."
    ),
    "service_silent": _("%(name)s took the request and ended before it answered. It was not sent again."),
    "service_stopped": _("%(name)s was stopped. Somebody of its team can wake it."),
    "service_waking": _("%(name)s is still waking. %(why)s"),
}
