"""Names in an exported history: as they are, or numbers in their place that stay the same from export to export."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.utils.crypto import salted_hmac

SALT = "monitoring.history"


@dataclass(frozen=True)
class Names:
    """teams, people, machines: {id: name}. anonymous: replace them, and the names of jobs and images."""

    teams: Mapping[int, str]
    people: Mapping[int, str]
    machines: Mapping[int, str]
    anonymous: bool = False
    _ids: dict[str, dict[str, int]] = field(default_factory=dict)

    def team(self, pk: int | None) -> str:
        return self._named("team", self.teams, pk)

    def person(self, pk: int | None) -> str:
        return self._named("person", self.people, pk)

    def machine(self, pk: int | None) -> str:
        return self._named("machine", self.machines, pk)

    def find_team(self, name: str) -> int | None:
        """Return the id of a team that an event names, None if it is gone."""
        return self._find("team", self.teams, name)

    def find_person(self, name: str) -> int | None:
        return self._find("person", self.people, name)

    def word(self, text: str) -> str:
        """Return a job's name or image."""
        return number_text(text) if self.anonymous and text else text

    def _named(self, what: str, known: Mapping[int, str], pk: int | None) -> str:
        if pk is None:
            return ""
        return f"{what}-{pk}" if self.anonymous else known.get(pk, f"{what}-{pk}")

    def _find(self, what: str, known: Mapping[int, str], name: str) -> int | None:
        if what not in self._ids:
            self._ids[what] = {text: pk for pk, text in known.items()}
        return self._ids[what].get(name)


def number_text(text: str) -> str:
    """Return a number that is the same for the same text, and from which this cannot be guessed without the key."""
    return str(int(salted_hmac(SALT, text, algorithm="sha256").hexdigest()[:12], 16))


def number_commands(spec: Mapping) -> str:
    """Return the number of what a job runs, the commands of all its roles: never their text."""
    roles = spec.get("roles") or {"": spec}
    return number_text(json.dumps({name: role.get("run", "") for name, role in roles.items()}, sort_keys=True))
