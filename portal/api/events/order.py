"""The settled id: no event up to it can still appear.

Ids are assigned at INSERT, rows appear at COMMIT, so a later id may appear first, and a stream past it would lose the
earlier one (docs/notes/order-of-events.md).
"""

from django.db import connection

LAST_ID = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM events_event_id_seq"
# INSERT takes this table lock before its id, and keeps it until commit or rollback.
WRITERS = """
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
      AND relation = 'events_event'::regclass
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class SettledIds:
    """Tracks the settled id, which never decreases."""

    def __init__(self) -> None:
        self._settled: int | None = None
        self._candidate = 0
        self._writers: frozenset[str] | None = None

    def settled(self) -> int | None:
        """Return the settled id, None until first known.

        The candidate is read before the writers: whoever has an id up to it is then among them.
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
