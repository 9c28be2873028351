"""Service errors on Django forms."""

from django.forms import BaseForm

from common.errors import InvalidInput, PlatformError
from portal.wording.errors import describe_error, describe_field_error


def bind(form: BaseForm, error: PlatformError) -> None:
    """Show `error` on the form: each message at its field ("/scopes/0" is `scopes`), others on top."""
    if not isinstance(error, InvalidInput):
        form.add_error(None, describe_error(error))
        return
    for one in error.errors:
        name = one.pointer.split("/")[1] if one.pointer else ""
        form.add_error(name if name in form.fields else None, describe_field_error(one))
