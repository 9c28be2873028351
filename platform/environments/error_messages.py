"""Sentences for the errors of environments."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_recipe_file": _(
        "“%(got)s” is no path of a file of an environment. Write a path below the folder, such as models.yaml or "
        "etc/models.yaml."
    ),
    "bad_requirement": _(
        "“%(got)s” is not a line of requirements for pip. Write one package a line, such as numpy==2.1.0, or an option "
        "of such a file: -r requirements.txt."
    ),
    "recipe_is_empty": _("The recipe brings nothing. Name at least one package in pip, or one file in files."),
    "recipe_needs_code": _("The files of a recipe are sent as code. Upload their folder, and give its digest in code."),
}
ERROR_MESSAGES = {
    "nothing_kept": _(
        "The notebook %(name)s keeps no packages yet. Start it, install what is to be in the environment with pip, "
        "then save it."
    ),
}
