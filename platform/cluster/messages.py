"""Sentences for the errors of maintenance, agents and their reports."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_agent_key_shape": _("This is no key of an agent. Send tag_ and 43 to 86 letters, digits and dashes."),
    "bad_machine_name": _(
        "“%(got)s” is no name of a machine. Use up to 63 letters, digits, dots, dashes and underscores, with a letter "
        "or digit first."
    ),
    "card_twice": _("Two cards of the report are called %(got)s. Each has its own."),
    "maintenance_backwards": _("The maintenance ends at or before its beginning. Choose a later end."),
    "maintenance_nowhere": _("The maintenance is of no machine. Name at least one, or a pool."),
    "maintenance_over": _("The maintenance would be over already. Choose a later end."),
    "not_square": _("The matrix has a row and a column for each of the %(cards)s cards, or is left empty."),
}
ERROR_MESSAGES = {
    "agent_key_taken": _(
        "The key was made on another machine: the agent's folder was copied with the disk. Delete the folder on "
        "%(node)s, and enrol it with a new token."
    ),
    "bad_enrolment": _(
        "This enrolment token is unknown, or a newer one was made for the machine. Ask an administrator for a new one."
    ),
    "enrolment_expired": _(
        "This enrolment token of %(node)s is too old. Ask an administrator for a new one, and use it at once."
    ),
    "enrolment_used": _(
        "This enrolment token of %(node)s was used by another key. If that was not you, revoke the agent; in any case "
        "ask for a new token."
    ),
}
