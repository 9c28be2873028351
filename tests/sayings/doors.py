"""The doors by which ada is told what starts: each read as a person or a program reads it, none from the code behind.

Home's headline and its tiles, `tessera free`, `tessera run --plan`, the form, what would help a job, the Queue page and
the job's own page; and where there is JSON of the same, that too.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPMessage

import pytest
from django.conf import settings
from django.db import transaction
from django.test import Client
from django.urls import reverse
from typer.testing import CliRunner

from cli.http import transport
from cli.main import app
from tests import make
from tests.portal.pages.rail import PROMISES, RAIL
from tests.sayings.page_text import Element, read_page

NOW, WAITS, NEVER, REFUSED = "now", "waits", "never", "refused"
TONES = {"done": NOW, "wait": WAITS, "fault": NEVER, "plain": REFUSED}
OUTCOMES = {"starts": NOW, "waits": WAITS, "never": NEVER}
MARKS = {"●": NOW, "◐": WAITS, "✕": NEVER}
TIMES = re.compile(r"(?:[A-Z][a-z]{2} )?\d?\d:\d\d")
"""Of a range in words: 12:08, or Sun 12:08."""
ALSO = re.compile(r"It also waits in .*")
"""Beside a reason: in which other pools the job waits, too."""


class Undone(Exception):
    """Takes back what was done meanwhile."""


@contextmanager
def undoing() -> Iterator[None]:
    """What is written within is taken back."""
    try:
        with transaction.atomic():
            yield
            raise Undone
    except Undone:
        pass


@dataclass(frozen=True)
class Ask:
    """What is asked for, as a job file says it."""

    gpu: str = "0"
    pool: str = ""
    nodes: str = ""
    time: str = ""
    preemptible: bool = False

    @property
    def said(self) -> dict[str, str]:
        fields = {"gpu": self.gpu, "pool": self.pool, "nodes": self.nodes, "time": self.time}
        return {name: value for name, value in fields.items() if value}

    @property
    def yaml(self) -> str:
        lines = [f"{name}: {value}" for name, value in self.said.items()]
        return "\n".join(["run: 'true'", *lines, *(["preemptible: true"] if self.preemptible else [])]) + "\n"

    @property
    def options(self) -> list[str]:
        return [word for name, value in self.said.items() for word in (f"--{name}", value)]


@dataclass(frozen=True)
class Lever:
    """A change that would help. field, value: as its button sends them, or the command line says."""

    words: str
    start: str
    field: str = ""
    value: str = ""

    @property
    def now(self) -> bool:
        return self.start.lower() in ("now", "starts now")


@dataclass(frozen=True)
class Told:
    """What a door says of an ask. reasons: the first is of the whole job. notes: what is free in the pool."""

    verdict: str
    words: str
    reasons: list[str] = field(default_factory=list)
    levers: list[Lever] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pool: str = ""


@dataclass(frozen=True)
class PoolNumbers:
    """What is free in a pool: each in the words of its door, "" where it says nothing of it."""

    free: str = ""
    total: str = ""
    whole: str = ""
    largest: str = ""
    waiting: str = ""
    may: str = ""


@dataclass(frozen=True)
class WaitingRow:
    position: str
    reason: str
    starts: str


@dataclass(frozen=True)
class Queue:
    """answer: its first line. rows: {job: {pool: its row there}} of ada's team's jobs that wait."""

    answer: str
    pools: dict[str, PoolNumbers]
    rows: dict[str, dict[str, WaitingRow]]


@dataclass(frozen=True)
class JobPage:
    """state: its chip. reason: the sentence for the whole job. pool: where it has the place that the page tells."""

    state: str
    sentence: str
    position: str
    of: str
    reason: str
    further: list[str]
    starts: str
    pool: str

    @property
    def is_waiting(self) -> bool:
        return self.state == "Queued"


@dataclass(frozen=True)
class Home:
    headline: str
    tiles: dict[str, str]
    pools: dict[str, PoolNumbers]


class Doors:
    """The doors as ada sees them: a browser in which she is signed in, and a terminal."""

    def __init__(self, person, patch: pytest.MonkeyPatch):
        self.browser = Client(HTTP_ORIGIN=settings.TESSERA_PUBLIC_URL)
        self.browser.force_login(person)
        self.answers: list[dict] = []
        """What the API answered to the command line last."""
        self._terminal = CliRunner()
        patch.setenv("TESSERA_URL", "http://testserver")
        self._token = make.token(person)
        patch.setenv("TESSERA_TOKEN", self._token)
        patch.setenv("COLUMNS", "600")
        patch.setattr(transport.Client, "_exchange", self._exchange)

    # ---- pages ----

    def home(self) -> Home:
        page = self._page(reverse("home"), RAIL)
        tiles = {
            form.find("input", name="gpu").attributes["value"]: form.find(class_="preset-note").text
            for form in page.find_all("form", action=reverse("notebook_preset"))
        }
        pools = page.find(class_="pools").find_all("li") if page.find(id="free-now") else []
        return Home(page.find(id="can-start").text, tiles, dict(_read_pool(pool) for pool in pools))

    def sizes(self) -> dict[str, str]:
        """What the form of a new notebook says of each size."""
        form, promises = (self._page(reverse("notebook_new"), headers) for headers in ({}, PROMISES))
        choices = {one.find("input").attributes["value"]: one for one in form.find_all("label", class_="choice")}
        places = {gpu: one.find(class_="choice-note").attributes["id"] for gpu, one in choices.items()}
        return {gpu: promises.find(id=place).text for gpu, place in places.items()}

    def queue(self) -> Queue:
        page = self._page(reverse("queue"))
        pools, rows = {}, defaultdict(dict)
        for section in page.find_all("section", class_="stack"):
            name = section.attributes.get("id", "").removeprefix("pool-")
            free, total = re.search(r"GPUs free: (\S+) of (\S+)", section.find(class_="line-up").text).groups()
            pools[name] = PoolNumbers(free=free, total=total)
            for table in section.find_all("table", class_="is-waiting"):
                for row in table.find("tbody").find_all("tr"):
                    cells = [cell.text for cell in row.find_all("td")]
                    if job := re.search(r"job-\d+", cells[1]):
                        rows[job[0]][name] = WaitingRow(cells[0], ALSO.sub("", cells[4]).strip(), cells[5])
        return Queue(page.find(id="answer").text, pools, rows)

    def job(self, job_id: str) -> JobPage:
        page = self._page(reverse("job", args=[job_id]))
        head = page.find(class_="job-state")
        wait = page.find(id="wait") or Element()
        stats = {one.find(class_="stat-name").text: one.find(class_="stat-value").text for one in _stats(wait)}
        position, _, of = stats.get("Queue position", "").partition(" of ")
        of, _, pool = of.partition(" in ")  # of several pools; the sentence names a single one
        sentence = head.find("p").text
        reason = wait.find("p", class_="reason")
        further = [one.text for one in (wait.find(id="further-reasons") or Element()).find_all("li")]
        return JobPage(
            head.find(class_="chip").text,
            sentence,
            position,
            of,
            reason.text if reason else "",
            further,
            stats.get("Expected start", ""),
            pool or next(iter(re.findall(r"in pool ([\w-]+)", sentence)), ""),
        )

    def levers(self, job_id: str) -> list[Lever]:
        page = self._page(reverse("job", args=[job_id]), {"HX-Request": "true", "HX-Target": "levers"})
        rows = (page.find("ul", class_="levers") or Element()).find_all("li")
        return [
            Lever(
                row.find(class_="grow").text,
                row.find(class_="lever-start").text,
                row.find("input", name="field").attributes["value"],
                row.find("input", name="value").attributes["value"],
            )
            for row in rows
        ]

    def form(self, ask: Ask, *, ahead: bool = False) -> Told:
        answer = self.browser.post(reverse("job_sync"), {"yaml": ask.yaml, "touched": "", "ahead": "1" * ahead})
        found = answer.json()["preview"]
        said = [(fix["words"].rpartition(": "), fix["field"], fix["value"]) for fix in found["fixes"]]
        levers = [Lever(words, start, name, value) for (words, _, start), name, value in said]
        verdict = TONES[found["tone"]]
        notes = [line for line in found["more"] if line.startswith("GPUs free")]
        reasons = [line for line in found["more"] if line not in notes and not line.startswith("Estimating")]
        return Told(verdict, found["words"], reasons, levers if verdict == WAITS else [], notes)

    def submit(self, ask: Ask) -> str:
        """Submit by the form: the job's id, or the sentence that refuses it, which begins with "!"."""
        answer = self.browser.post(reverse("job_new"), {"yaml": ask.yaml, "start": ask.yaml, "touched": ""})
        if answer.status_code == 302:
            return answer["Location"].rstrip("/").rpartition("/")[2]
        page = read_page(answer.content.decode())
        said = [*page.find_all(id="yaml-errors"), *page.find_all(class_="banner"), *page.find_all(class_="field-error")]
        return "!" + " ".join(one.text for one in said)

    def click_tile(self, gpu: str) -> None:
        self.browser.post(reverse("notebook_preset"), {"gpu": gpu})

    def apply(self, job_id: str, lever: Lever) -> str:
        """Press its button; what the page says against it, or ""."""
        sent = {"field": lever.field, "value": lever.value}
        answer = self.browser.post(reverse("job_change", args=[job_id]), sent, follow=True)
        note = read_page(answer.content.decode()).find(id="notes")
        return note.text if note else ""

    def _page(self, path: str, headers: dict[str, str] | None = None) -> Element:
        answer = self.browser.get(path, headers=headers or {})
        assert answer.status_code == 200, (path, answer.status_code)
        return read_page(answer.content.decode())

    # ---- terminal ----

    def free(self) -> tuple[dict[str, PoolNumbers], dict[str, dict]]:
        """What `tessera free` shows by pool, and what the API answered it."""
        lines = self.tessera("free").stdout.splitlines()
        found = {}
        for line in lines[1:]:
            pool, _model, free, _quarters, largest, may, waiting = re.split(r"\s{2,}", line.strip())
            whole, _, total = free.partition("/")
            found[pool] = PoolNumbers(total=total, whole=whole, largest=largest, may=may, waiting=waiting)
        return found, {pool["pool"]: pool for pool in self.answers[0]["results"]}

    def plan(self, ask: Ask) -> tuple[Told, Told]:
        """What `tessera run --plan` prints, and what the API answered it."""
        options = [*ask.options, "--plan"]
        if ask.preemptible:  # no option of `run`
            found = self.tessera("submit", "-", "--plan", input=ask.yaml)
        else:
            found = self.tessera("run", *options, "--", "true")
        if not found.stdout:
            return Told(REFUSED, " ".join(found.stderr.split())), Told(REFUSED, self.answers[-1].get("detail", ""))
        return _read_plan(found.stdout), _read_plan_answer(self.answers[-1])

    def queue_in_terminal(self) -> dict[str, dict[str, WaitingRow]]:
        """{job: {pool: its row there}}."""
        rows = defaultdict(dict)
        for line in self.tessera("queue").stdout.splitlines()[1:]:
            cells = re.split(r"\s{2,}", line.strip())
            if len(cells) > 8 and cells[5] == "queued":
                rows[cells[2]] |= dict.fromkeys(cells[0].split(","), WaitingRow(cells[1], cells[8], ""))
        return rows

    def why(self, job_id: str) -> tuple[Told, dict]:
        """What `tessera why` prints of a waiting job, and what the API answers of its wait."""
        lines = self.tessera("why", job_id).stdout.splitlines()
        wait = next(answer for answer in self.answers if "reasons" in answer)
        levers = [line[10:].rpartition(": ") for line in lines if line.startswith(("  sooner", " " * 10))]
        until = next((n for n, line in enumerate(lines) if line.startswith("as of")), len(lines))
        first = [line for line in lines[1:until] if not line.startswith(("It will start", "It is held", "It also"))]
        start = next((line for line in lines if line.startswith("It will start")), "")
        words = [Lever(words, start) for words, _, start in levers]
        return Told(WAITS, lines[0] + " " + start, [line.strip() for line in first], words), wait

    def tessera(self, *words: str, input: str | None = None):
        self.answers = []
        result = self._terminal.invoke(app, list(words), input=input, prog_name="tessera")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    def _exchange(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> transport.Answer:
        """The command's request, answered in this process: what a world holds is in a transaction of the test."""
        kind = headers.get("Content-Type", "application/octet-stream")
        sent = {**headers, "Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        answer = Client().generic(method, transport.PREFIX + path, body, content_type=kind, headers=sent)
        said = HTTPMessage()
        for name, value in answer.items():
            said[name] = value
        self.answers.append(json.loads(answer.content) if answer.content else {})
        return transport.Answer(answer.status_code, said, answer.content)


def _stats(part: Element) -> Iterator[Element]:
    return (one for one in part.find_all("div", class_="stat"))


def _read_pool(line: Element) -> tuple[str, PoolNumbers]:
    """A pool of Home: "dev V100-32GB 2½ of 3 cards", "1 of them whole · largest slice 17 GB · no job waits"."""
    words = line.find(class_="pool-words")
    free, total = re.search(r"(\S+) of (\d+) card", words.text).groups()
    note = line.find("p").text
    largest = re.search(r"largest slice (\S+ [MGT]B)", note)
    waiting = re.search(r"(\d+) jobs? wait", note)
    whole = re.search(r"(\d+) of them whole", note)
    return words.find("b").text, PoolNumbers(free, total, whole[1], largest[1] if largest else "", waiting[1])


def _read_plan(text: str) -> Told:
    """The lines of a plan: its mark and words, then why, sooner and try, each under its title."""
    head, *lines = text.splitlines()
    listed: dict[str, list[str]] = {}
    title = ""
    for line in lines:
        title = line[2:9].strip() or title
        listed.setdefault(title, []).append(line[10:].strip())
    levers = [Lever(*line.rpartition(": ")[::2]) for line in listed.get("sooner", [])]
    return Told(MARKS[head[0]], head[2:], listed.get("why", []), levers)


def _read_plan_answer(answer: dict) -> Told:
    levers = [
        Lever(lever["text"], "now" if lever["now"] else lever["start_text"], lever["field"], str(lever["value"]))
        for lever in answer["levers"]
    ]
    reasons = [reason["text"] for reason in answer["reasons"]]
    return Told(OUTCOMES[answer["outcome"]], answer["text"], reasons, levers, pool=answer["pool"] or "")
