"""How long jobs run, learned from those that ended by themselves.

Several witnesses tell of a job: the newest past jobs of the same person and name, of the same team and size, ..., and
what the person said (`job_traits.WITNESSES`). Each past job first tests them all, then they learn from it, so that each
has a record of its errors, in logarithms: of the group of past jobs, of the person, and of everybody. The one whose
record is best for this job decides.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, exp, inf, log
from typing import Any, NamedTuple

from scheduler.core.prediction.job_traits import SAID, WITNESSES, JobTraits, PastJob, list_keys
from scheduler.core.prediction.witness_records import KEPT, Errors, Group

KEPT_RECORD = 50
"""Newest errors of a person, or of everybody."""
UNTRIED = 0.7
"""Error that an untried witness is taken to have: a factor of two."""
BETTER = 0.9
"""How much smaller the errors of a more general witness must be, so that it decides."""
SHARE = 0.9
"""Of such jobs that last no longer than `latest_s`."""
LEAST_ERRORS = 10
"""Errors that it takes to tell so."""
UNTESTED = 4.0
"""How many times as long as expected the latest is until then; `inf` for what nobody but the person says."""
TESTED = 1000
"""Newest predictions that are kept with what came true."""


@dataclass(frozen=True)
class PredictedLength:
    """expected_s: median. latest_s: what nine in ten of such jobs do not exceed; `inf` if unknown, as expected_s.

    basis: of the witness that decides, "" for none. count: past jobs that it tells of.
    """

    expected_s: float = inf
    latest_s: float = inf
    basis: str = ""
    count: int = 0


class Tested(NamedTuple):
    """A prediction of the past, `inf` for none, and what came true."""

    expected_s: float
    latest_s: float
    seconds: float


NO_ERRORS, NOTHING_KNOWN = Errors(), Group()


@dataclass(frozen=True)
class _Testimony:
    """What the witness that decides says: the logarithm of the length, its group, and its errors of such jobs."""

    witness: int
    center: float
    group: Group
    errors: list[float]

    @property
    def latest_s(self) -> float:
        if len(self.errors) >= LEAST_ERRORS:
            return _to_seconds(self.center + _covering(self.errors))
        return inf if self.witness == SAID else UNTESTED * _to_seconds(self.center)


@dataclass
class LengthModel:
    """groups: {(witness, key)}. persons: {(witness, person)}. everybody: [witness]. tested: oldest first."""

    groups: dict[tuple, Group] = field(default_factory=dict)
    persons: dict[tuple[int, int], Errors] = field(default_factory=dict)
    everybody: list[Errors] = field(default_factory=lambda: [Errors() for _ in WITNESSES])
    tested: list[Tested] = field(default_factory=list)

    def predict(self, job: JobTraits, *, limit_s: float = inf, elapsed_s: float = 0.0) -> PredictedLength:
        """Predict how long a job runs in all, given that it has run for `elapsed_s` already. limit_s: it is ended then.

        One that has outlived what was expected is expected to last as long as those did that lasted so long; beyond
        them all, as long again (Pareto's law with the exponent 1, of which nine in ten end within ten times as long).
        """
        found = self._choose(job)
        if found is None:
            return PredictedLength(limit_s)
        expected_s = _to_seconds(found.center)
        latest_s = found.latest_s
        if elapsed_s >= expected_s:
            expected_s, latest_s = _outlive(found, elapsed_s)
        elif elapsed_s >= latest_s:
            latest_s = 10.0 * elapsed_s
        bound_s = max(limit_s, elapsed_s + 1.0)
        expected_s = min(expected_s, bound_s)
        return PredictedLength(
            expected_s,
            min(max(latest_s, expected_s), bound_s),
            WITNESSES[found.witness].basis,
            len(found.group.newest),
        )

    def learn(self, past: PastJob) -> None:
        """Test all witnesses by a job that ended, then teach them."""
        job, length = past.traits, log(max(past.seconds, 1.0))
        told = self.predict(job)
        self.tested.append(Tested(told.expected_s, told.latest_s, past.seconds))
        del self.tested[:-TESTED]
        of_said = length - _log_said(job)
        for place, key in enumerate(list_keys(job)):
            if key is not None:
                self._teach(place, key, job.person, of_said if WITNESSES[place].of_said else length)

    def dump(self) -> dict[str, Any]:
        """Return the model as JSON. What has too few lengths to tell of any job is left out."""
        groups = ((key, group) for key, group in self.groups.items() if len(group.newest) >= WITNESSES[key[0]].least)
        return {
            "witnesses": [witness.basis for witness in WITNESSES],
            "groups": [[key, _rounded(group.newest), _rounded(group.errors.newest)] for key, group in groups],
            "persons": [[key, _rounded(errors.newest)] for key, errors in self.persons.items()],
            "everybody": [_rounded(errors.newest) for errors in self.everybody],
            "tested": [[value if value < inf else None for value in row] for row in self.tested],
        }

    def _teach(self, place: int, key: tuple, person: int, length: float) -> None:
        """Test a witness by a length, then teach it."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group()
        if len(group.newest) >= WITNESSES[place].least:
            error = length - group.median
            own = self.persons.get((place, person))
            if own is None:
                own = self.persons[place, person] = Errors()
            group.errors.add(error, KEPT)
            own.add(error, KEPT_RECORD)
            self.everybody[place].add(error, KEPT_RECORD)
        if place != SAID:  # it stays what was said
            group.add(length)

    def _choose(self, job: JobTraits) -> _Testimony | None:
        best, least = None, inf
        for place, key in enumerate(list_keys(job)):
            if key is None:
                continue
            group = self.groups.get(key, NOTHING_KNOWN)
            if len(group.newest) < WITNESSES[place].least:
                continue
            own = self.persons.get((place, job.person), NO_ERRORS)
            wrong = own.mean(self.everybody[place].mean(UNTRIED))
            if place != SAID:  # whose group is everybody
                wrong = group.errors.mean(wrong)
            if wrong < BETTER * least:
                best, least = (place, group, own), wrong
        if best is None:
            return None
        place, group, own = best
        center = group.median + (_log_said(job) if WITNESSES[place].of_said else 0.0)
        records = (own, self.everybody[place]) if place == SAID else (group.errors, own, self.everybody[place])
        errors = next((one.newest for one in records if len(one.newest) >= LEAST_ERRORS), [])
        return _Testimony(place, center, group, errors)


def learn_lengths(past: Iterable[PastJob]) -> LengthModel:
    """Learn from jobs that ended by themselves, oldest first."""
    model = LengthModel()
    for job in past:
        model.learn(job)
    return model


def load_model(stored: dict[str, Any]) -> LengthModel:
    """Read `LengthModel.dump` back; one that other witnesses have learned tells nothing."""
    if stored.get("witnesses") != [witness.basis for witness in WITNESSES]:
        return LengthModel()
    return LengthModel(
        {tuple(key): Group(newest, errors) for key, newest, errors in stored["groups"]},
        {(place, person): Errors(newest) for (place, person), newest in stored["persons"]},
        [Errors(newest) for newest in stored["everybody"]],
        [Tested(*(inf if value is None else value for value in row)) for row in stored["tested"]],
    )


def _covering(errors: list[float]) -> float:
    """Return the error that SHARE of these do not exceed, one unseen one counted (split conformal prediction)."""
    place = min(ceil(SHARE * (len(errors) + 1)), len(errors))
    return sorted(errors)[place - 1]


def _outlive(found: _Testimony, elapsed_s: float) -> tuple[float, float]:
    """Return (expected, latest) seconds of a job that has run longer than expected."""
    beyond = sorted(seconds for error in found.errors if (seconds := _to_seconds(found.center + error)) > elapsed_s)
    if not beyond:
        return elapsed_s + max(elapsed_s, 1.0), 10.0 * max(elapsed_s, 1.0)
    latest_s = beyond[ceil(SHARE * len(beyond)) - 1] if len(beyond) >= LEAST_ERRORS else max(beyond[-1], 2 * elapsed_s)
    return beyond[len(beyond) // 2], latest_s


def _log_said(job: JobTraits) -> float:
    return log(max(job.said_s or 1.0, 1.0))


def _to_seconds(length: float) -> float:
    return float(max(round(exp(length)), 1))


def _rounded(values: Iterable[float]) -> list[float]:
    return [round(value, 5) for value in values]
