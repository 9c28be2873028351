"""What the builders of rows write in a shorter way is what the services write."""

import pytest

from accounts.models import Membership, Team, User
from cluster.models import Gpu, Node, Pool
from quotas.models import Quota
from tests import make

TABLES = (Team, User, Membership, Pool, Node, Gpu, Quota)
DIFFERENT = {"created_at", "joined_at", "last_seen_at", "password"}
"""Of each time another value."""


@pytest.mark.django_db
def test_the_cast_is_what_the_services_make(settings, tmp_path, django_assert_max_num_queries):
    settings.TESSERA_FILES = tmp_path
    make.make_cast_by_services()
    expected = read_rows()
    for table in reversed(TABLES):
        table.objects.all().delete()
    with django_assert_max_num_queries(12):
        cast = make.cast()
    assert read_rows() == expected
    assert [person.pk for person in (cast.ada, cast.bob, cast.eve)] == [
        User.objects.get(username=name).pk for name in ("ada", "bob", "eve")
    ]
    assert not cast.ada.has_usable_password()


def read_rows():
    """What is in each table, without keys: other rows by their names."""
    return {table: [describe(row) for row in table.objects.order_by("pk")] for table in TABLES}


def describe(row):
    fields = [field for field in row._meta.fields if not field.primary_key and field.name not in DIFFERENT]
    return {field.name: name_of(getattr(row, field.name)) for field in fields}


def name_of(value):
    """Of a row; any other value is itself."""
    match value:
        case User():
            return value.username
        case Team() | Pool() | Node():
            return value.name
    return value
