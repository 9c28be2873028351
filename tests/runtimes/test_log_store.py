import pytest

from runtimes.log_store import LogStore

TASK = "0123456789abcdef" * 2


@pytest.fixture
def store(tmp_path):
    return LogStore(tmp_path / "logs")


def test_what_is_appended_is_read_from_any_offset(store):
    assert store.append(TASK, 0, b"hello ") == 6
    assert store.append(TASK, 6, b"world") == 11
    assert store.read(TASK, 0) == (b"hello world", 11)
    assert store.read(TASK, 6, limit=3) == (b"wor", 9)
    assert store.read(TASK, 11) == (b"", 11) and store.size(TASK) == 11


@pytest.mark.parametrize("offset", [2**45, 2**63 - 1, 10**300])
def test_beyond_its_end_a_log_is_empty(store, offset):
    store.append(TASK, 0, b"hello")
    assert store.read(TASK, offset) == (b"", offset)


def test_sending_the_same_piece_twice_keeps_it_once(store):
    store.append(TASK, 0, b"hello")
    assert store.append(TASK, 0, b"hello") == 5
    assert store.append(TASK, 3, b"lo world") == 11
    assert store.read(TASK, 0)[0] == b"hello world"


def test_a_gap_is_refused(store):
    with pytest.raises(ValueError, match="gap"):
        store.append(TASK, 1, b"x")


def test_a_log_that_does_not_exist_is_empty(store):
    assert store.read(TASK, 7) == (b"", 7) and store.size(TASK) == 0


@pytest.mark.parametrize("task", ["../../etc/passwd", "", "x" * 32, TASK + "/.."])
def test_only_a_uuid_names_a_log(store, task):
    with pytest.raises(ValueError, match="uuid"):
        store.path(task)


def test_logs_are_spread_by_the_first_two_digits_and_private(store):
    store.append(TASK, 0, b"x")
    assert store.path(TASK).parent.name == "01"
    assert store.path(TASK).stat().st_mode & 0o777 == 0o600
    assert store.path("01234567-89ab-cdef-0123-456789abcdef") == store.path(TASK)
