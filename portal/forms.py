"""Errors of services, bound to the fields of a Django form."""

from django.forms import BaseForm

from common.errors import InvalidInput, PlatformError
from common.words import error_words, field_words


def bind(form: BaseForm, error: PlatformError) -> None:
    """Show `error` on the form: each field's sentence at its field, all else above them.

    The first part of a pointer names the field ("/scopes/0" is `scopes`).
    """
    if not isinstance(error, InvalidInput):
        form.add_error(None, error_words(error))
        return
    for one in error.errors:
        name = one.pointer.split("/")[1] if one.pointer else ""
        form.add_error(name if name in form.fields else None, field_words(one))
