"""What tests of several doors share."""

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections


@pytest.fixture
def one_connection(db):
    """Whole requests by WSGI stay in this test's transaction, as those of Django's own test client do."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)
