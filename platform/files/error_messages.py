"""Sentences for the errors of uploads and volumes."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "bad_volume_claim": _(
        "“%(got)s” is not the name of a claim. Write that of a PersistentVolumeClaim, which the namespace of each team "
        "that uses it has."
    ),
    "bad_volume_folder": _(
        "“%(got)s” is not a folder of the machines. Write its whole path, which is the same on each, such as "
        "/data/imagenet."
    ),
    "closed_volume_folder": _(
        "Jobs are given no folder of the system or of Tessera itself, such as %(folder)s. Name another one."
    ),
}
ERROR_MESSAGES = {
    "no_room": _("Not enough space: %(used)s of %(limit)s are used or reserved. Delete something first."),
    "upload_busy": _("Another part of this upload is still being written. Wait until it is done, then continue."),
    "upload_too_long": _("More was sent than the upload announced at its start. Start again with the right size."),
    "user_limit.uploads": _("You have %(used)s of at most %(limit)s uploads open. Finish or delete one first."),
    "wrong_offset": _("The upload does not end here. Continue from byte %(offset)s."),
}
