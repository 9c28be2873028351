"""Years of jobs, drawn: people repeat work, some say wrong times, and work changes. The law: docs/simulation.md.

jobs = draw_year(seed=1, count=5000)
"""

from dataclasses import dataclass, field
from itertools import accumulate
from math import exp, log
from random import Random

from scheduler.core.prediction.job_traits import JobTraits, PastJob, cut_name

PEOPLE, TEAMS = 40, 6
WORKS = (2, 8)
"""How many kinds of work a person has at once, at least and at most."""
USUAL_S, SPREAD = 3600.0, 1.3
"""Median of the usual lengths of kinds of work, and their deviation (of logarithms)."""
SPREADS = (0.1, 0.25, 0.5)
"""Deviations of the lengths of one kind of work, each as likely."""
SIZES = (1, 1, 2, 4, 8)
CRASHES, CRASH_S = 0.03, (5.0, 60.0)
"""Share of jobs that fail at once, and when."""
DRIFTS, DRIFT = 0.02, 0.5
"""Share of jobs before which the usual length of their work moves, and by how much (deviation of the logarithm)."""
REPLACED = 0.01
"""Share of jobs that are the first of new work, which replaces what was there."""
SILENT = 0.3
"""Share of people who say no time."""
LIES = (1.0, 1.0, 1.0, 3.0, 10.0, 0.5)
"""What people say is so many times what they expect."""
ROUNDED_S = 1800.0


@dataclass
class Work:
    """What somebody runs again and again."""

    name: str
    image: str
    size: int
    usual: float
    spread: float


@dataclass
class Person:
    number: int
    dice: Random
    silent: bool = False
    lie: float = 1.0
    doubt: float = 0.2
    works: list[Work] = field(default_factory=list)
    count: int = 0

    def think_of_work(self) -> Work:
        """Draw new work."""
        self.count += 1
        dice = self.dice
        usual = dice.gauss(log(USUAL_S), SPREAD)
        name = f"work{'abcdefghij'[self.count // 10 % 10]}{'abcdefghij'[self.count % 10]}"
        return Work(name, f"image{dice.randrange(4)}", dice.choice(SIZES), usual, dice.choice(SPREADS))

    def say(self, usual: float) -> float | None:
        if self.silent:
            return None
        said_s = self.lie * exp(self.dice.gauss(usual, self.doubt))
        return max(round(said_s / ROUNDED_S), 1) * ROUNDED_S


def draw_year(seed: int, count: int) -> list[PastJob]:
    """Draw jobs in the order in which they come."""
    dice = Random(seed)
    people = [_draw_person(number, dice) for number in range(PEOPLE)]
    busy = list(accumulate(1.0 / (1 + number) for number in range(PEOPLE)))
    return [_draw_job(number, dice.choices(people, cum_weights=busy)[0], dice) for number in range(count)]


def _draw_person(number: int, dice: Random) -> Person:
    person = Person(number, dice, dice.random() < SILENT, dice.choice(LIES), dice.choice((0.2, 0.6)))
    person.works = [person.think_of_work() for _ in range(dice.randint(*WORKS))]
    return person


def _draw_job(number: int, person: Person, dice: Random) -> PastJob:
    place = dice.randrange(len(person.works))
    if dice.random() < REPLACED:
        person.works[place] = person.think_of_work()
    work = person.works[place]
    if dice.random() < DRIFTS:
        work.usual += dice.gauss(0.0, DRIFT)
    said_s = person.say(work.usual)
    seconds = dice.uniform(*CRASH_S) if dice.random() < CRASHES else exp(dice.gauss(work.usual, work.spread))
    traits = JobTraits(
        person=person.number,
        team=person.number % TEAMS,
        pool=0,
        name=cut_name(f"{work.name}-{number}"),
        command=f"{work.name} {dice.randrange(3)}",
        program=work.name,
        image=work.image,
        size=str(work.size),
        said_s=said_s,
    )
    return PastJob(traits, seconds)
