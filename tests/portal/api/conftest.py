"""The cast, each with a token of all scopes."""

import pytest

from tests import make
from tests.api_client import Api


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture
def ada(cast):
    return Api(make.token(cast.ada))


@pytest.fixture
def bob(cast):
    return Api(make.token(cast.bob))


@pytest.fixture
def eve(cast):
    """The stranger."""
    return Api(make.token(cast.eve))


@pytest.fixture
def nobody(db):
    return Api()
