"""Sentences for the errors of people's files."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_path": _(
        "%(field)s is not a valid path. Separate names with slashes, do not begin with a slash, and do not use "
        "names that consist of dots only."
    ),
}
ERROR_MESSAGES = {
    "cannot_move_there": _("A folder cannot be moved into itself. Choose another place."),
    "disk_full": _("The disk with these files is full. Delete something, or ask an administrator for space."),
    "files_closed": _("You have no access to these files. Ask their owner to open them (chmod)."),
    "files_remain": _("The folder is so large that not all of it is deleted yet. Delete it again."),
    "leads_outside": _("This link leads out of the folder, so it is not followed."),
    "not_a_file": _("This is not a regular file, so it has no content. Open it in a terminal."),
}
