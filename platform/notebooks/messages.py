"""Sentences for the errors of notebooks."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_notebook_name": _(
        "“%(got)s” cannot name a notebook. Use up to 40 small letters, digits and dashes, with a letter or digit first "
        "and last, and nothing like job-12 or nb-12."
    ),
    "confirm_name": _("Type the name of the notebook, “%(name)s”, to delete it."),
}
ERROR_MESSAGES = {
    "notebook_started": _("%(name)s is started. Stop it first, then delete it."),
    "notebooks_failed": _(
        "The environment for notebooks could not be prepared. It is tried again when Tessera is started; the reason is "
        "shown to administrators."
    ),
    "notebooks_preparing": _(
        "The environment for notebooks is still being prepared. Try again in a minute; all else works."
    ),
}
