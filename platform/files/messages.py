"""Sentences for the errors of uploads."""

from django.utils.translation import gettext_lazy as _

ERROR_MESSAGES = {
    "no_room": _("There is no room for it: %(used)s of %(limit)s are used or promised. Delete something first."),
    "upload_busy": _("Another piece of this upload is being written. Wait for its end, then go on."),
    "upload_too_long": _("More was sent than the upload said at its start. Begin it anew with the right size."),
    "wrong_offset": _("This is not where the upload ends. Go on from byte %(offset)s."),
}
