"""Session users read from the database, for websockets that outlive sessions."""

from importlib import import_module
from types import SimpleNamespace

from django.conf import settings
from django.contrib.auth import get_user

from accounts.models import User

SessionStore = import_module(settings.SESSION_ENGINE).SessionStore


def load_session_user(session_key: str | None) -> User | None:
    """Return the user; None if signed out, suspended or the password changed."""
    user = get_user(SimpleNamespace(session=SessionStore(session_key)))  # type: ignore[arg-type]
    return user if user.is_authenticated and user.is_active else None
