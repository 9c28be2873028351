"""What really happened, in the form of what a play gives, so that both are measured alike."""

from jobs.lifecycle import MADE_ROOM
from monitoring.history.file_format import Attempt
from scheduler.simulation.history import COMPLETED, FAILED, PREEMPTED, RUNNING, JobRun, SimulationHistory
from scheduler.whatif.replay import Play, Replay


def recall_runs(replay: Replay) -> Play:
    """Return the truth of a replay's history, without reasons: the platform does not keep those."""
    ends, happened = replay.history.header.ends, SimulationHistory()
    happened.ended_at = ends
    for number, stint in replay.stints.items():
        started = [(one, one.assigned_at) for one in stint.attempts if one.assigned_at is not None]
        happened.runs += [_run(replay, number, attempt, at, ends) for attempt, at in started]
        if started:
            happened.first_start[number] = started[0][1]
        elif stint.leaves_at <= ends:
            happened.gave_up[number] = stint.leaves_at
    return Play(replay.history, replay.stints, happened, {})


def _run(replay: Replay, number: int, attempt: Attempt, began_at: float, ends: float) -> JobRun:
    cards = [(seat.machine, *card) for seat in attempt.seats for card in seat.cards]
    known = replay.cluster.cards
    places = tuple(known[machine, index] for machine, index, *_ in cards if (machine, index) in known)
    milli = sum(card[-1] for card in cards)
    return JobRun(number, places, began_at, attempt.freed_at or ends, _outcome(attempt), milli)


def _outcome(attempt: Attempt) -> str:
    if attempt.freed_at is None:
        return RUNNING
    if attempt.reason in MADE_ROOM:
        return PREEMPTED
    return FAILED if attempt.lost else COMPLETED
