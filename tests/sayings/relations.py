"""What must hold between the doors, in any world; each relation yields the contradictions that it finds, in words.

 1. The numbers of a pool (free, of all, whole ones, largest slice, how many wait) are the same at each door.
 2. "You can start now: N whole" and "a slice of up to M": the form says "starts now" of just that, and the next cycle
    starts it. Where the headline offers nothing, neither tile, size, plan nor form says so of a GPU.
 3. "You may start" of `tessera free` is above nothing where, and only where, some GPU of that pool starts now.
 4. A tile says of a size what the form of a new notebook says. A click on "starts now" is running after the next cycle,
    on "waiting" waits, and on "at your limit" leaves nothing behind.
 5. Plan and form say the same of the same ask: starts, waits or never, the same reason and the same changes.
 6. What plan and form say of an ask is what happens to it: after submit and the next cycle it runs, or waits for the
    reason and at the place that was said; what can never run, or is beyond a limit, is refused in the same words.
 7. A waiting job has one place, one reason and one expected start: on its page, in the queue, in `why` and `queue`.
    The numbers in its reason do not deny what the page beside shows to be free.
 8. "With this it starts now": after Apply and the next cycle it runs. Page and terminal offer the same changes.
 9. "A job with a `time` that ends before does not wait for that", "can go ahead of it", "a job with `preemptible: true`
    can borrow them": with it, it waits for something else if at all.
10. Times: the range that one door tells of a job is the other's, and none of them is past.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from jobs.models import Job
from jobs.states import JOB_ACTIVE, JobState
from notebooks.models import Notebook
from tests.sayings.doors import (
    NEVER,
    NOW,
    REFUSED,
    TIMES,
    WAITS,
    Ask,
    Doors,
    Home,
    JobPage,
    Lever,
    PoolNumbers,
    Queue,
    Told,
    WaitingRow,
    undoing,
)
from tests.sayings.random_world import CARDS, SLICES, RandomWorld, run_cycle

MOST_ASKS, MOST_WAITING, MOST_CLICKS = 2, 2, 2
SHORT = "1m"
TIMES_HELP = ("a job with a `time` that ends before", "a job with a `time` can go ahead")


@dataclass(frozen=True)
class Scene:
    """What the doors say of the cluster and the queue, before anything is asked for."""

    home: Home
    free: dict[str, PoolNumbers]
    capacity: dict[str, dict]
    queue: Queue
    queue_in_terminal: dict[str, dict[str, WaitingRow]]


def find_contradictions(world: RandomWorld, doors: Doors) -> Generator[str, None, None]:
    free, capacity = doors.free()
    scene = Scene(doors.home(), free, capacity, doors.queue(), doors.queue_in_terminal())
    yield from check_numbers(scene)
    yield from check_headline(world, doors, scene.home)
    yield from check_may_start(world, doors, scene)
    yield from check_tiles(world, doors, scene.home)
    for ask in draw_asks(world):
        yield from check_ask(doors, ask)
    for job in list(Job.objects.waiting().filter(user=world.ada).of_kind("").order_by("pk")[:MOST_WAITING]):
        yield from check_waiting_job(doors, scene, job.public_id)
    yield from check_queue(world, scene)


def draw_asks(world: RandomWorld) -> list[Ask]:
    """In the pool that is named, or in any; as gangs in worlds that have some."""
    dice = world.dice
    return [
        Ask(
            gpu=dice.choice([*SLICES, *CARDS, "0"]),
            pool=dice.choice(["", *world.own]),
            nodes=dice.choice(["", "2"]) if world.has_gangs else "",
            time=dice.choice(["", "", "5m", "8h"]),
            preemptible=not dice.randrange(4),
        )
        for _ in range(MOST_ASKS)
    ]


# ---- 1 ----


def check_numbers(scene: Scene) -> Iterator[str]:
    queues = scene.queue.pools
    for pool, here in scene.free.items():
        answer = scene.capacity[pool]
        told = {
            "of all": {here.total, f"{answer['cards_total']}", queues[pool].total},
            "whole": {here.whole, f"{answer['cards_free']}"},
            "waiting": {here.waiting, f"{answer['waiting']}"},
            "largest slice": {here.largest, _or_dash(answer["largest_slice"], answer["shared"])},
        }
        if stat := scene.home.pools.get(pool):
            told["of all"].add(stat.total)
            told["whole"].add(stat.whole)
            told["waiting"].add(stat.waiting)
            told["largest slice"].add(stat.largest or "–")
            if abs(number_of(stat.free) - number_of(queues[pool].free)) > 0.01:  # told in hundredths
                yield f"1: Home says {stat.free} free in {pool}, and the queue {queues[pool].free}"
        if stat and stat.free != answer["free"]["text"]:
            yield f"1: Home says {stat.free} free in {pool}, and the API {answer['free']['text']}"
        yield from (f"1: {what} in {pool}: {sorted(words)}" for what, words in told.items() if len(words) > 1)


def _or_dash(amount: dict, shared: bool) -> str:
    return amount["text"] if shared and amount["value"] else "–"


VULGAR = {"⅛": 0.125, "¼": 0.25, "⅜": 0.375, "½": 0.5, "⅝": 0.625, "¾": 0.75, "⅞": 0.875}


def number_of(text: str) -> float:
    return VULGAR[text] if text in VULGAR else float(text.replace(",", ""))


# ---- 2 and 3 ----


def read_offers(headline: str) -> dict[str, Ask]:
    """What the headline offers by pool: as many whole cards as one job's tasks, or a slice as large as it says."""
    found = {}
    for words in headline.partition("You can start now: ")[2].split(" · "):
        if whole := re.fullmatch(r"(\d+) whole .* in (\S+)", words):
            found[whole[2]] = Ask("1", whole[2], nodes=whole[1] if whole[1] != "1" else "")
        elif part := re.fullmatch(r"a slice of up to (\S+) ([MG])B in (\S+)", words):
            amount = part[1] if part[2] == "G" else f"{int(part[1]) / 1000}"
            found[part[3]] = Ask(f"{amount}GB", part[3])
    return found


def check_headline(world: RandomWorld, doors: Doors, home: Home) -> Iterator[str]:
    offers = read_offers(home.headline)
    for ask in offers.values():
        if (said := doors.form(ask)).verdict != NOW:
            yield f"2: the headline is {home.headline!r}, and the form says of {ask.said}: {said.words} {said.reasons}"
        elif not starts_next(doors, ask):
            yield f"2: the headline is {home.headline!r}, and the next cycle does not start {ask.said}"
    if not offers and not home.headline.startswith("You can start a notebook now"):
        tiles = {gpu for gpu, words in home.tiles.items() if words == "starts now" and gpu != "0"}
        if tiles:
            yield f"2: the headline is {home.headline!r}, and tiles of {tiles} start now"
    if "that you submit wait" in home.headline and (said := doors.form(Ask())).verdict == REFUSED:
        yield f"2: the headline is {home.headline!r}, and a submit is refused: {said.words}"
    if home.headline.startswith("No GPU is free") and any(number_of(pool.free) for pool in home.pools.values()):
        yield f"2: the headline is {home.headline!r}, beside {home.pools}"


def check_may_start(world: RandomWorld, doors: Doors, scene: Scene) -> Iterator[str]:
    offers = read_offers(scene.home.headline)
    for pool, row in scene.free.items():
        if pool not in world.own:
            continue
        least = Ask("1/8" if pool == "dev" else "1", pool)
        said, may = doors.form(least), number_of(row.may)
        if (may > 0) != (pool in offers):
            yield f"3: `free` says that {row.may} may start in {pool}, and the headline offers {list(offers)}"
        if said.verdict == NOW and pool not in offers:
            yield f"2: the headline is {scene.home.headline!r}, and of {least.said} the form says {said.words}"
        if said.verdict == NOW and not may:
            yield f"3: `free` says that {row.may} may start in {pool}, and of {least.said} the form says {said.words}"
        whole = Ask("1", pool)  # a card that is lent may start where no slice does
        if may >= (0.125 if pool == "dev" else 1) and NOW not in (said.verdict, doors.form(whole).verdict):
            yield (
                f"3: `free` says that {row.may} may start in {pool}, and of {least.said} the form says {said.words} "
                f"{said.reasons}"
            )


def starts_next(doors: Doors, ask: Ask) -> bool:
    with undoing():
        job_id = doors.submit(ask)
        if job_id.startswith("!"):
            return False
        run_cycle()
        return not doors.job(job_id).is_waiting
    raise AssertionError


# ---- 4 ----


def check_tiles(world: RandomWorld, doors: Doors, home: Home) -> Iterator[str]:
    sizes = doors.sizes()
    for gpu, words in home.tiles.items():
        if words != "started" and sizes.get(gpu) != words:
            yield f"4: the tile of {gpu} says {words!r}, and the form of a new notebook {sizes.get(gpu)!r}"
    tiles = list(home.tiles.items())
    for gpu, words in world.dice.sample(tiles, min(MOST_CLICKS, len(tiles))):
        before = set(Notebook.objects.values_list("pk", flat=True))
        with undoing():
            doors.click_tile(gpu)
            made = Notebook.objects.exclude(pk__in=before)
            if words == "at your limit" and made.exists():
                yield f"4: the tile of {gpu} says {words!r}, and a click leaves {made.get().name}"
            run_cycle()
            job = made.get().job if made.exists() else None
            active = job is not None and job.state in JOB_ACTIVE
            if words in ("starts now", "waiting") and (job is None or active != (words == "starts now")):
                why = job.wait_reasons if job else "nothing was made"
                yield f"4: the tile of {gpu} says {words!r}, and after the click it is {job and job.state}: {why}"


# ---- 5 and 6 ----


def check_ask(doors: Doors, ask: Ask) -> Iterator[str]:
    (printed, answered), form = doors.plan(ask), doors.form(ask, ahead=True)
    doors_of = {"terminal": printed, "API": answered, "form": form}
    if len({told.verdict for told in doors_of.values()}) > 1:
        yield f"5: of {ask.said}: { {name: (told.verdict, told.words) for name, told in doors_of.items()} }"
        return
    if form.verdict in (NOW, WAITS, NEVER) and not same_words(*(told.words for told in doors_of.values())):
        yield f"5: of {ask.said}: { {name: told.words for name, told in doors_of.items()} }"
    if form.verdict == WAITS:
        firsts = {name: told.reasons[:1] for name, told in doors_of.items()}
        if len({lower(*first) for first in firsts.values()}) > 1:
            yield f"5: {ask.said} waits, {firsts}"
        if not printed.reasons:
            yield f"5: {ask.said} waits, and nobody says why: {printed.words}"
        changes = {name: sorted(lower(lever.words) for lever in told.levers) for name, told in doors_of.items()}
        if len({tuple(lines) for lines in changes.values()}) > 1:
            yield f"5: {ask.said} would start sooner with {changes}"
    yield from check_outcome(doors, ask, answered)
    for lever in answered.levers:
        if lever.now:
            yield from check_changed_ask(doors, ask, lever)


def check_outcome(doors: Doors, ask: Ask, said: Told) -> Iterator[str]:
    with undoing():
        job_id = doors.submit(ask)
        refused = job_id.startswith("!")
        if refused != (said.verdict in (NEVER, REFUSED)):
            yield f"6: of {ask.said} it is said {said.words!r}, and the submit brings {job_id}"
        if refused:
            return
        run_cycle()
        page = doors.job(job_id)
        if page.is_waiting != (said.verdict == WAITS):
            yield f"6: of {ask.said} it is said {said.words!r}, and then: {page.sentence} {page.reason}"
        elif page.is_waiting:
            yield from _check_wait_as_said(ask, said, page)


def _check_wait_as_said(ask: Ask, said: Told, page: JobPage) -> Iterator[str]:
    place = re.search(r"#(\d+) of (\d+)", said.words)
    if place and place.groups() != (page.position, page.of):
        yield f"6: of {ask.said} it is said {said.words!r}, and then it is {page.position} of {page.of}"
    if not same_reason(said.reasons[0], page.reason):
        yield f"6: {ask.said} would wait, since {said.reasons[0]!r}, and then waits, since {page.reason!r}"


def check_changed_ask(doors: Doors, ask: Ask, lever: Lever) -> Iterator[str]:
    changed = change_ask(ask, lever.field, lever.value)
    if not starts_next(doors, changed):
        said = doors.form(changed)
        yield f"8: {ask.said} would start now with {lever.words!r}, and {changed} does not: {said.words} {said.reasons}"


def change_ask(ask: Ask, name: str, value: str) -> Ask:
    fields = {**ask.__dict__, name: value.lower() == "true" if name == "preemptible" else value}
    return Ask(**fields)


def lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def same_words(*said: str) -> bool:
    """Whether sentences are the same but for times, which are compared by 10."""
    return len({TIMES.sub("T", words) for words in said}) == 1


def same_reason(first: str, second: str) -> bool:
    return lower(first) == lower(second)


# ---- 7 to 10 ----


def check_waiting_job(doors: Doors, scene: Scene, job_id: str) -> Iterator[str]:
    page, (printed, wait) = doors.job(job_id), doors.why(job_id)
    row, in_terminal = scene.queue.rows[job_id][page.pool], scene.queue_in_terminal[job_id][page.pool]
    reasons = {
        "page": page.reason,
        "queue": row.reason,
        "terminal": in_terminal.reason,
        "why": printed.reasons[0],
        "API": wait["reasons"][0]["text"],
    }
    if len({lower(words) for words in reasons.values()}) > 1:
        yield f"7: {job_id} waits, since {reasons}"
    places = {"page": page.position, "queue": row.position, "terminal": in_terminal.position, "API": wait["position"]}
    if len({str(place) for place in places.values()}) > 1:
        yield f"7: {job_id} is at {places}"
    yield from check_times(job_id, page.starts, row.starts, wait)
    yield from check_levers(doors, job_id, printed)
    for reason in (page.reason, *page.further):
        yield from check_promised_way(doors, job_id, reason)


def check_levers(doors: Doors, job_id: str, printed: Told) -> Iterator[str]:
    levers = doors.levers(job_id)
    if [lower(one.words) for one in levers] != [lower(one.words) for one in printed.levers]:
        yield f"8: for {job_id} the page offers {levers}, and the terminal {printed.levers}"
    for lever in levers:
        if lever.now:
            with undoing():
                refusal = doors.apply(job_id, lever)
                run_cycle()
                page = doors.job(job_id)
                if page.is_waiting:
                    yield f"8: with {lever.words!r} {job_id} starts now, and then: {refusal} {page.reason}"


def check_promised_way(doors: Doors, job_id: str, reason: str) -> Iterator[str]:
    """A reason that ends in what to do about it keeps that promise."""
    if "`preemptible: true` can borrow" in reason:
        lever = Lever("preemptible", "", "preemptible", "true")
    elif any(words in reason for words in TIMES_HELP):
        lever = Lever(f"time {SHORT}", "", "time", SHORT)
    else:
        return
    with undoing():
        refusal = doors.apply(job_id, lever)
        run_cycle()
        page = doors.job(job_id)
        if page.is_waiting and page.reason == reason:
            yield f"9: {job_id} waits, since {reason!r}; with {lever.words}: {refusal} {page.reason}"


def check_times(job_id: str, on_page: str, in_queue: str, wait: dict) -> Iterator[str]:
    if on_page != "Not known yet" and not same_times(on_page or "–", in_queue):
        yield f"10: {job_id} is told to start {on_page!r}, and in the queue {in_queue!r}"
    start = wait["start"]
    if bool(start) != bool(TIMES.search(on_page) or "moment" in on_page):
        yield f"10: the page says of {job_id} {on_page!r}, and the API {start}"
    if start and start["p90"] and datetime.fromisoformat(start["p90"]) < timezone.now() - timedelta(minutes=1):
        yield f"10: {job_id} is told to have started by {start['p90']}"


def same_times(first: str, second: str) -> bool:
    """Whether sentences are the same, but for times that passed a minute between two looks."""
    times = [[int(at[-5:-3]) * 60 + int(at[-2:]) for at in TIMES.findall(words)] for words in (first, second)]
    return same_words(first, second) and all((a - b) % 1440 in (0, 1, 1439) for a, b in zip(*times, strict=True))


def check_queue(world: RandomWorld, scene: Scene) -> Iterator[str]:
    """The reasons of ada's team's jobs do not deny what is free in the pool where they wait."""
    answer, pools, rows = scene.queue.answer, scene.queue.pools, scene.queue.rows
    waiting = Job.objects.filter(state=JobState.QUEUED, stop_requested_at=None)
    if answer.startswith("Nothing is waiting") and waiting.exists():
        yield f"7: {answer!r}, and {waiting.count()} jobs wait"
    for job in waiting.filter(team=world.nlp):
        if not rows[job.public_id]:
            yield f"7: {job.public_id} waits, and is in no queue"
        for pool, row in rows[job.public_id].items():
            for denial in check_beside(row.reason, scene.free[pool], pools[pool]):
                yield f"7: {job.public_id} waits in {pool}, since {row.reason!r}, beside {denial}"


def check_beside(reason: str, here: PoolNumbers, in_queue: PoolNumbers) -> Iterator[str]:
    """Yield what of the numbers of a pool denies a reason to wait there."""
    total = re.search(r"(\d+) free (?:in all|in total)", reason)
    if total and "GPU" in reason and int(total[1]) < int(here.whole):
        yield f"{here.whole} whole cards free"
    best = re.search(r"the best has (\S+ [MG]B) free", reason)
    if best and here.largest != "–" and bytes_of(best[1]) < bytes_of(here.largest):
        yield f"a slice of {here.largest}"
    if reason.startswith("free resources") and not number_of(in_queue.free):
        yield "no free GPU"


def bytes_of(text: str) -> float:
    amount, _, unit = text.partition(" ")
    return float(amount) * {"MB": 1, "GB": 1000, "TB": 10**6}[unit]
