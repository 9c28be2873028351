"""Work that is left to the commit: once for each key, in one callback, and never in the transaction's way."""

import pytest
from django.db import connection, transaction

from events.record_and_publish import collect_on_commit, once_on_commit

pytestmark = pytest.mark.django_db(transaction=True)


class Flushed(list):
    """A flush function that keeps what it was given."""

    __name__ = "flushed"

    def __call__(self, values):
        self.append(list(values))

    __hash__ = object.__hash__


def test_the_last_value_of_each_key_is_given_at_once_and_after_the_commit():
    flushed = Flushed()
    with transaction.atomic():
        collect_on_commit(flushed, "a", 1)
        collect_on_commit(flushed, "b", 2)
        collect_on_commit(flushed, "a", 3)
        assert flushed == []
        assert len(connection.run_on_commit) == 1
    assert flushed == [[3, 2]]


def test_a_rollback_gives_nothing_and_the_next_transaction_begins_anew():
    flushed = Flushed()
    with pytest.raises(OSError, match="lost"), transaction.atomic():
        collect_on_commit(flushed, "a", 1)
        raise OSError("lost")
    with transaction.atomic():
        collect_on_commit(flushed, "b", 2)
    assert flushed == [[2]]


def test_a_savepoint_that_is_rolled_back_takes_back_only_what_began_in_it():
    flushed = Flushed()
    with transaction.atomic():
        with pytest.raises(OSError, match="lost"), transaction.atomic():
            collect_on_commit(flushed, "a", 1)
            raise OSError("lost")
        collect_on_commit(flushed, "b", 2)
        with pytest.raises(OSError, match="lost"), transaction.atomic():
            raise OSError("lost")
        collect_on_commit(flushed, "c", 3)
    assert flushed == [[2, 3]]


def test_without_a_transaction_it_is_done_at_once():
    flushed = Flushed()
    collect_on_commit(flushed, "a", 1)
    assert flushed == [[1]]


def test_what_fails_stops_neither_the_others_nor_the_caller():
    done = []

    def fail():
        raise OSError("no broker")

    with transaction.atomic():
        once_on_commit("first", fail)
        once_on_commit("second", lambda: done.append(1))
        once_on_commit("second", lambda: done.append(2))
    once_on_commit("third", fail)
    assert done == [2]
