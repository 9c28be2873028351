"""One kind of things as the API server has them: a list, and the events since. Pure, but for who calls it.

A list is the truth, and events only carry it on: whatever is missed comes back with the next list (PROMISES 5.1).
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from runtimes.base import Unavailable
from runtimes.kubernetes.client import Expired, Listed, Thing

GONE = 410


class Mirror:
    """things: by "namespace/name". version: from which a watch goes on, "" before the first list."""

    def __init__(self, trim: Callable[[Thing], Thing] = lambda thing: thing):
        """trim: what to keep of each thing, to spare memory; name, namespace, uid and version must stay."""
        self.things: dict[str, Thing] = {}
        self.version = ""
        self.trim = trim
        self._gone: dict[str, str] | None = None

    @property
    def synced(self) -> bool:
        return bool(self.version)

    def replace(self, listed: Listed) -> set[str]:
        """Keys of what is new, changed or missing. listed: things that are trimmed. Raises Unavailable for a list that
        is older than what we know: some proxy answered, and nothing in it may be believed.
        """
        if is_older(listed.version, self.version):
            raise Unavailable(f"A list of version {listed.version} came after {self.version}.")
        fresh = {key_of(thing): thing for thing in listed.items}
        changed = {key for key, thing in fresh.items() if _version(self.things.get(key, {})) != _version(thing)}
        missing = self.things.keys() - fresh.keys()
        self.things, self.version, self._gone = fresh, listed.version, None
        return changed | missing

    def begin_check(self) -> None:
        """A list is asked for beside the events: what goes from now on is remembered until `find_missed`."""
        self._gone = {}

    def is_behind(self, listed: Listed) -> bool:
        """Whether events that the list knows of may still be on their way."""
        return is_older(self.version, listed.version)

    def find_missed(self, listed: Listed) -> set[str]:
        """Keys of which the events told nothing, or too little. listed: asked for since begin_check, and nothing of it
        is on its way any more. After another list meanwhile nothing is compared.
        """
        if (gone := self._gone) is None:
            return set()
        self._gone = None
        then = {key_of(thing): _version(thing) for thing in listed.items}
        now = {key: _version(thing) for key, thing in self.things.items()}
        last = gone | now
        untold = {key for key, version in then.items() if is_older(last.get(key, "0"), version)}
        stayed = {key for key, version in now.items() if key not in then and not is_older(listed.version, version)}
        return untold | stayed

    def apply(self, event: Mapping[str, Any]) -> set[str]:
        """Keys of what it changed. Raises Expired where the server says that our version is too old, Unavailable for
        any other error of its.
        """
        kind, thing = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise Expired(str(thing)) if thing.get("code") == GONE else Unavailable(str(thing)[:300])
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not _version(thing):
            raise Unavailable(f"An event of the kind {kind!r} came, without a version.")
        changed = set() if kind == "BOOKMARK" else self._carry_on(str(kind), thing)
        if not is_older(_version(thing), self.version):
            self.version = _version(thing)
        return changed

    def _carry_on(self, kind: str, thing: Thing) -> set[str]:
        """An event that came twice, or late, changes nothing."""
        key = key_of(thing)
        known = self.things.get(key)
        if known is not None and (is_older(_version(thing), _version(known)) or _same(known, thing, kind)):
            return set()
        if kind == "DELETED":
            if self._gone is not None:
                self._gone[key] = _version(thing)
            return {key} if self.things.pop(key, None) is not None else set()
        if known is None and is_older(_version(thing), self.version):
            return set()  # it has been deleted since
        self.things[key] = self.trim(thing)
        return {key}


class Backoff:
    """How long to wait after so many failures in a row: up to twice as long each time, anything below it by chance."""

    def __init__(self, dice: random.Random, first_s: float = 0.5, most_s: float = 30.0):
        self._dice, self._first_s, self._most_s, self._failures = dice, first_s, most_s, 0

    def failed(self, took_s: float = 0.0) -> float:
        """took_s: that the failure lasted, which was a pause as well: nobody waits 30 s after a silence of 40."""
        longest = max(min(self._first_s * 2**self._failures, self._most_s) - took_s, self._first_s)
        self._failures = min(self._failures + 1, 16)
        return self._dice.uniform(0, longest)

    def succeeded(self) -> None:
        self._failures = 0


def key_of(thing: Mapping[str, Any]) -> str:
    return f"{thing['metadata'].get('namespace', '')}/{thing['metadata']['name']}"


def is_older(version: str, than: str) -> bool:
    """Versions are numbers that grow, wherever they are numbers at all (KEP-5504)."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _version(thing: Mapping[str, Any]) -> str:
    return thing.get("metadata", {}).get("resourceVersion", "")


def _same(known: Thing, thing: Thing, kind: str) -> bool:
    return kind != "DELETED" and _version(known) == _version(thing)
