"""Sentences for the errors of maintenance, agents and their reports."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_agent_key_shape": _("This is not an agent key. Send tag_ and 43 to 86 letters, digits and dashes."),
    "bad_machine_name": _(
        "“%(got)s” is not a valid machine name. Use up to 63 letters, digits, dots, dashes and underscores, and "
        "begin with a letter or digit."
    ),
    "bad_switch": _("Give the switch a name of at most %(max)s printable characters."),
    "card_twice": _("Two cards of the report are called %(got)s. Each card needs its own."),
    "maintenance_backwards": _("The maintenance does not end after its beginning. Choose a later end."),
    "maintenance_nowhere": _("The maintenance names no machine. Name at least one, or a pool."),
    "maintenance_over": _("The maintenance would already be over. Choose a later end."),
    "not_one_per_card": _("Give one word for each of the %(cards)s cards."),
    "not_square": _("The matrix must have one row and one column for each of the %(cards)s cards, or be empty."),
}
ERROR_MESSAGES = {
    "agent_key_taken": _(
        "This key was created on another machine: the agent's folder was copied with the disk. Delete the folder "
        "on %(node)s and enrol the machine with a new token."
    ),
    "bad_enrolment": _(
        "This enrolment token is unknown, or was replaced by a newer one for this machine. Ask an administrator "
        "for a new one."
    ),
    "enrolment_expired": _(
        "This enrolment token of %(node)s has expired. Ask an administrator for a new one and use it right away."
    ),
    "enrolment_used": _(
        "This enrolment token of %(node)s was used with another key. If that was not you, revoke the agent. In "
        "any case, ask for a new token."
    ),
}
