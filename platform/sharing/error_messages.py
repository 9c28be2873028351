"""Sentences for the errors of sharing."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "not_a_colleague": _(
        "“%(name)s” is no other active member or lead of team %(team)s. Choose a user name from the team."
    ),
    "too_many_notebook_tokens": _(
        "This notebook has as many addresses as it may have, %(max)s. End those that you no longer use."
    ),
    "too_many_shares": _("This is open to %(max)s colleagues already. End a share first."),
}
