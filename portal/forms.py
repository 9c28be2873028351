"""Service errors on Django forms."""

from collections.abc import Callable
from typing import TypeVar

from django.db import transaction
from django.forms import BaseForm

from common.errors import InvalidInput, PlatformError
from portal.wording.errors import describe_error, describe_field_error

T = TypeVar("T")


def bind(form: BaseForm, error: PlatformError) -> None:
    """Show `error` on the form: each message at its field ("/scopes/0" is `scopes`), others on top."""
    if not isinstance(error, InvalidInput):
        form.add_error(None, describe_error(error))
        return
    for one in error.errors:
        name = one.pointer.split("/")[1] if one.pointer else ""
        form.add_error(name if name in form.fields else None, describe_field_error(one))


def save(form: BaseForm, act: Callable[[], T]) -> T | None:
    """Run a service that returns something, all or nothing, if the form is valid; None if one of them refuses.

    The service's refusal then stands on the form.
    """
    if not form.is_valid():
        return None
    try:
        with transaction.atomic():
            return act()
    except PlatformError as error:
        bind(form, error)
        return None
