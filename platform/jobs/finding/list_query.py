"""What the list of jobs is asked for: the query of its address, which saved views keep."""

from collections.abc import Callable, Container
from dataclasses import asdict, dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date

from jobs.finding.filters import JobFilter
from jobs.models import JobKind
from jobs.states import JOB_ACTIVE, JobState

WHOSE = ("mine", "team")
KINDS = ("", *JobKind.values)
STATES: dict[str, tuple[str, ...]] = {
    "waiting": (JobState.QUEUED,),
    "active": tuple(sorted(JOB_ACTIVE)),
    "done": (JobState.SUCCEEDED,),
    "failed": (JobState.FAILED,),
    "cancelled": (JobState.CANCELLED,),
}
"""The states that people choose among, and those of jobs that each means."""
DAYS = {"today": 0, "7d": 6, "30d": 29}
"""Spans of submission that move with the time: how many days before today they begin."""
SORTS = tuple(
    way + name for name in ("submitted", "name", "state", "pool", "owner", "ran", "ended") for way in ("", "-")
)
USUAL_SORT = "-submitted"
PARAMETERS = {"first": "from", "last": "until"}
"""Fields whose parameter has another name: `from` is a word of Python."""
LONGEST = {"q": 100, "label": 200, "owner": 64, "pool": 64}
"""Text filters, and how long their values may be."""

LeftOut = tuple[str, str]
"""What an address asked for and cannot be: the parameter and its value."""


@dataclass(frozen=True)
class ListQuery:
    """?whose=team&state=failed&pool=dev&label=exp:a&days=7d&sort=-ran, read. What is empty does not matter.

    whose: "mine" or "team", which is all that the reader sees, and what an owner is looked for in. state: of STATES.
    first, last: days of submission, both included; `from` and `until` of the address.
    """

    whose: str = "mine"
    kind: str = ""
    state: tuple[str, ...] = ()
    pool: str = ""
    label: str = ""
    owner: str = ""
    days: str = ""
    first: date | None = None
    last: date | None = None
    q: str = ""
    sort: str = USUAL_SORT

    def address(self, **changed: object) -> str:
        """Return the query of the list's address with changed parameters, on its first page unless told otherwise."""
        asked = {PARAMETERS.get(name, name): value for name, value in asdict(self).items()}
        asked |= ({"whose": ""} if self.owner else {}) | changed
        usual = {"whose": "mine", "sort": USUAL_SORT, "page": 1}
        return "?" + urlencode(
            {name: value for name, value in asked.items() if value and value != usual.get(name)}, doseq=True
        )

    @property
    def job_states(self) -> tuple[str, ...]:
        return tuple(state for code in self.state for state in STATES[code])

    @property
    def filter(self) -> JobFilter:
        """The filter of this moment, but for whose jobs."""
        rolling = timezone.localdate() - timedelta(days=DAYS[self.days]) if self.days else None
        begins = [day for day in (rolling, self.first) if day]
        return JobFilter(
            states=self.job_states,
            owner=self.owner,
            pool=self.pool,
            label=self.label,
            kind=self.kind,
            since=_begin_of(max(begins)) if begins else None,
            until=_begin_of(self.last + timedelta(days=1)) if self.last else None,
            text=self.q,
        )


def read_list_query(get: QueryDict) -> tuple[ListQuery, list[LeftOut]]:
    """Read an address; what is not possible is left out and told. Whether there is such a pool is not looked up."""
    left_out: list[LeftOut] = []

    def read(name: str, possible: Callable[[str], Any], usual: Any = "") -> Any:
        text = _text(get, name)
        value = possible(text) if text else None
        if text and value is None:
            left_out.append((name, text))
        return usual if value is None else value

    texts = {name: _text(get, name)[:most] for name, most in LONGEST.items()}
    whose = read("whose", _one_of((*WHOSE, "all")), "mine")
    asked = ListQuery(
        whose="team" if whose == "all" or texts["owner"] else whose,
        kind=read("kind", _one_of(KINDS)),
        state=_read_states(get, left_out),
        days=read("days", _one_of(DAYS)),
        first=read("from", _read_day, None),
        last=read("until", _read_day, None),
        sort=read("sort", _one_of(SORTS), USUAL_SORT),
        **texts,
    )
    return asked, left_out


def _text(get: QueryDict, name: str) -> str:
    return get.get(name, "").strip().replace("\0", "")


def _one_of(known: Container[str]) -> Callable[[str], str | None]:
    return lambda text: text if text in known else None


def _read_states(get: QueryDict, left_out: list[LeftOut]) -> tuple[str, ...]:
    asked = [code.strip() for text in get.getlist("state") for code in text.replace("\0", "").split(",")]
    left_out += [("state", code) for code in asked if code and code not in STATES]
    return tuple(code for code in STATES if code in asked)


def _read_day(text: str) -> date | None:
    try:
        found = parse_date(text)
    except ValueError:
        return None
    return found if found and 1970 <= found.year < 9000 else None


def _begin_of(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))
