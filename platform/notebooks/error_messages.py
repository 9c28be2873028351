"""Sentences for the errors of notebooks."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_notebook_name": _(
        "“%(got)s” is not a valid notebook name. Use up to 40 lower-case letters, digits and dashes, with a "
        "letter or digit first and last, and nothing like job-12 or nb-12."
    ),
    "confirm_name": _("Type the name of the notebook, “%(name)s”, to delete it."),
}
ERROR_MESSAGES = {
    "notebook_started": _("%(name)s has been started. Stop it first, then delete it."),
    "notebooks_failed": _(
        "The environment for notebooks could not be prepared. Tessera tries again at its next start; "
        "administrators can see the reason."
    ),
    "notebooks_preparing": _(
        "The environment for notebooks is still being prepared. Try again in a minute; everything else works."
    ),
    "user_limit.notebooks_running": _(
        "You are at your limit of notebooks that run at once, %(used)s of %(limit)s: %(holders)s. Stop one of them, "
        "or ask an admin for a higher limit."
    ),
    "user_limit.notebooks_running.none": _(
        "Your limit of notebooks that run at once is 0. Ask an admin for a higher limit."
    ),
}
