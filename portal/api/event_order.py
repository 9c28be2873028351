"""Up to which id the history is settled: every event with that id or a smaller one is visible, or never will be.

Ids are given when a row is inserted and rows appear when their transaction commits, so a later id may be seen first. A
stream that went on to it would lose the earlier one for good (docs/notes/order-of-events.md).
"""

from django.db import connection

LAST_ID = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM events_event_id_seq"
# An INSERT takes this lock on the table before it takes an id, and keeps it until its rows are visible or undone.
WRITERS = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
      AND relation = 'events_event'::regclass
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class SettledIds:
    """Asked again and again; each answer is at least the one before."""

    def __init__(self) -> None:
        self._settled: int | None = None
        self._candidate = 0
        self._writers: frozenset[str] | None = None

    def settled(self) -> int | None:
        """None until it is known for the first time, while a transaction that writes events is open. The order of
        the two questions matters: whoever has an id up to the candidate is among the writers.
        """
        with connection.cursor() as cursor:
            if self._writers is None:
                cursor.execute(LAST_ID)
                self._candidate = cursor.fetchone()[0]
            cursor.execute(WRITERS)
            now = frozenset(name for (name,) in cursor.fetchall())
        self._writers = now if self._writers is None else self._writers & now
        if not self._writers:
            self._settled, self._writers = self._candidate, None
        return self._settled
