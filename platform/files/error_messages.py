"""Sentences for the errors of uploads."""

from django.utils.translation import gettext_lazy as _

ERROR_MESSAGES = {
    "no_room": _("Not enough space: %(used)s of %(limit)s are used or reserved. Delete something first."),
    "upload_busy": _("Another part of this upload is still being written. Wait until it is done, then continue."),
    "upload_too_long": _("More was sent than the upload announced at its start. Start again with the right size."),
    "user_limit.uploads": _("You have %(used)s of at most %(limit)s uploads open. Finish or delete one first."),
    "wrong_offset": _("The upload does not end here. Continue from byte %(offset)s."),
}
