"""Sentences for the errors of the catalogue."""

from django.utils.translation import gettext_lazy as _

FIELD_MESSAGES = {
    "not_in_catalogue": _("“%(got)s” is not in the catalogue, and other images are not allowed here. Use %(known)s."),
    "not_in_catalogue.none": _(
        "Only images of the catalogue are allowed here, and it is empty. Leave out image, or ask an administrator."
    ),
}
