"""What is known of a job before it runs, and the groups of past jobs that it is like."""

import re
from typing import NamedTuple

TAIL = re.compile(r"(?:[-_.:#]*(?:v?[0-9]+|(?=[a-f]*[0-9])[0-9a-f]{6,}))+$", re.IGNORECASE)
"""Numbers and hashes that end a name."""


class JobTraits(NamedTuple):
    """What is known of a job before it runs.

    person, team, pool: ids. name: its stem. command: of the exact command; program: of the command without its numbers;
    both are hashes. size: cards, as text. said_s: how long the person said that it takes.
    """

    person: int
    team: int
    pool: int
    name: str = ""
    command: str = ""
    program: str = ""
    image: str = ""
    size: str = ""
    said_s: float | None = None


class PastJob(NamedTuple):
    """A job that ended by itself, and how long it ran."""

    traits: JobTraits
    seconds: float


class Witness(NamedTuple):
    """Past jobs that a job is like.

    least: lengths that it takes to say something. of_said: lengths count as parts of what their persons said.
    """

    basis: str
    least: int
    of_said: bool = False


WITNESSES = (
    Witness("same_command", 2),
    Witness("name", 2),
    Witness("program", 2),
    Witness("image", 5),
    Witness("size", 5),
    Witness("person", 5),
    Witness("said", 0, of_said=True),
    Witness("said_by_person", 3, of_said=True),
    Witness("said_in_pool", 20, of_said=True),
    Witness("team_name", 5),
    Witness("team_size", 20),
    Witness("pool_size", 20),
    Witness("pool", 20),
)
"""The most specific first: of about equally good ones the first decides."""

SAID = next(place for place, witness in enumerate(WITNESSES) if witness.basis == "said")
"""What the person said, as it is."""


def list_keys(job: JobTraits) -> tuple[tuple | None, ...]:
    """Return, for each of WITNESSES, the key that the job shares with its group; None if there is none for this job."""
    person, team, pool, name, command, program, image, size, said_s = job
    return (
        (0, person, name, command, size) if command else None,
        (1, person, name) if name else None,
        (2, person, program) if program else None,
        (3, person, image, size) if image else None,
        (4, person, size),
        (5, person),
        (6,) if said_s else None,
        (7, person) if said_s else None,
        (8, pool) if said_s else None,
        (9, team, name) if name else None,
        (10, team, size),
        (11, pool, size),
        (12, pool),
    )


def cut_name(name: str) -> str:
    """Return the name without the numbers and hashes that end it: "resnet-50-3f9c2e" is "resnet"."""
    return TAIL.sub("", name) or name
