"""Sentences for the errors of people's files."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_path": _(
        "%(field)s is no path here. Write names with slashes between, without dots alone and without a slash in front."
    ),
}
ERROR_MESSAGES = {
    "cannot_move_there": _("It cannot be moved there: a folder does not go into itself. Choose another place."),
    "disk_full": _("The disk under these files is full. Delete something, or ask an administrator for room."),
    "files_closed": _("These files are closed to you. Ask their owner to open them (chmod)."),
    "files_remain": _("The folder holds so much that not all of it is deleted yet. Delete it once more."),
    "leads_outside": _("This is a link that leads out of the folder, so it is not followed."),
    "not_a_file": _("This is no file, so it has no content. Open it in a terminal."),
}
