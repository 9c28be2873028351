"""Service errors on Django forms."""

from django.forms import BaseForm

from common.errors import InvalidInput, PlatformError
from common.words import error_words, field_words


def bind(form: BaseForm, error: PlatformError) -> None:
    """Show `error` on the form: each message at its field ("/scopes/0" is `scopes`), others on top."""
    if not isinstance(error, InvalidInput):
        form.add_error(None, error_words(error))
        return
    for one in error.errors:
        name = one.pointer.split("/")[1] if one.pointer else ""
        form.add_error(name if name in form.fields else None, field_words(one))
