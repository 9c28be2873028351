"""Informer cache of one kind of object. Pure. Lists are authoritative; events may be missed until the next one."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api.client import Expired, Listed, Thing

GONE = 410


class InformerCache:
    """Objects by "namespace/name". version: where the watch continues."""

    def __init__(self, trim: Callable[[Thing], Thing] = lambda thing: thing):
        """trim: reduces objects; must keep name, namespace, uid and version."""
        self.things: dict[str, Thing] = {}
        self.version = ""
        self.trim = trim
        self._gone: dict[str, str] | None = None

    @property
    def synced(self) -> bool:
        return bool(self.version)

    def replace(self, listed: Listed) -> set[str]:
        """Replace all by a trimmed list; return changed keys. Raises Unavailable for a list older than the cache."""
        if is_older(listed.version, self.version):
            raise Unavailable(f"A list of version {listed.version} came after {self.version}.")
        fresh = {build_key(thing): thing for thing in listed.items}
        changed = {key for key, thing in fresh.items() if _version(self.things.get(key, {})) != _version(thing)}
        missing = self.things.keys() - fresh.keys()
        self.things, self.version, self._gone = fresh, listed.version, None
        return changed | missing

    def begin_check(self) -> None:
        """Remember deletions from now until `find_missed`."""
        self._gone = {}

    def is_behind(self, listed: Listed) -> bool:
        """Return whether events up to this list may still arrive."""
        return is_older(self.version, listed.version)

    def find_missed(self, listed: Listed) -> set[str]:
        """Return keys whose events were missed. listed: requested since `begin_check`, with no events outstanding.

        Empty if the cache was replaced meanwhile.
        """
        if (gone := self._gone) is None:
            return set()
        self._gone = None
        then = {build_key(thing): _version(thing) for thing in listed.items}
        now = {key: _version(thing) for key, thing in self.things.items()}
        last = gone | now
        untold = {key for key, version in then.items() if is_older(last.get(key, "0"), version)}
        stayed = {key for key, version in now.items() if key not in then and not is_older(listed.version, version)}
        return untold | stayed

    def apply(self, event: Mapping[str, Any]) -> set[str]:
        """Apply a watch event; return changed keys. Raises Expired if our version is too old, else Unavailable."""
        kind, thing = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise Expired(str(thing)) if thing.get("code") == GONE else Unavailable(str(thing)[:300])
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not _version(thing):
            raise Unavailable(f"An event of the kind {kind!r} came, without a version.")
        changed = set() if kind == "BOOKMARK" else self._apply_change(str(kind), thing)
        if not is_older(_version(thing), self.version):
            self.version = _version(thing)
        return changed

    def _apply_change(self, kind: str, thing: Thing) -> set[str]:
        """Apply a change unless it is late or a repeat."""
        key, version = build_key(thing), _version(thing)
        known = self.things.get(key)
        if known is not None:
            before = _version(known)
            if is_older(version, before) or (version == before and kind != "DELETED"):
                return set()
        if kind == "DELETED":
            if self._gone is not None:
                self._gone[key] = version
            return {key} if self.things.pop(key, None) is not None else set()
        if known is None and is_older(version, self.version):
            return set()  # deleted since
        self.things[key] = self.trim(thing)
        return {key}


class Backoff:
    """Exponential backoff with full jitter, in seconds."""

    def __init__(self, dice: random.Random, first_s: float = 0.5, most_s: float = 30.0):
        self._dice, self._first_s, self._most_s, self._failures = dice, first_s, most_s, 0

    def failed(self, took_s: float = 0.0) -> float:
        """Return the pause. took_s: the failed attempt's own time, which is deducted."""
        longest = max(min(self._first_s * 2**self._failures, self._most_s) - took_s, self._first_s)
        self._failures = min(self._failures + 1, 16)
        return self._dice.uniform(0, longest)

    def succeeded(self) -> None:
        self._failures = 0


def build_key(thing: Mapping[str, Any]) -> str:
    return f"{thing['metadata'].get('namespace', '')}/{thing['metadata']['name']}"


def is_older(version: str, than: str) -> bool:
    """Compare versions, which grow wherever they are numbers (KEP-5504)."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _version(thing: Mapping[str, Any]) -> str:
    return thing.get("metadata", {}).get("resourceVersion", "")
