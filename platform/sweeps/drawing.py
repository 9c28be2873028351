"""Draw the values of a sweep's next trial.

No study is kept: each is built anew of the trials in the database, with a seed of its own, so that a worker that is
killed between two draws neither loses nor repeats anything. Optuna is imported here alone.
"""

from collections.abc import Iterable
from zlib import crc32

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from jobs.arrays.models import JobArray
from jobs.jobfile.search.space import Choices, Parameter
from jobs.jobfile.search.wish import SearchWish
from jobs.jobfile.spec import JobSpec
from jobs.states import JobState
from sweeps.trials import Trial, load_trials

RANDOM_FIRST = 10
"""How many trials tpe draws by chance, before there is something to learn of."""

optuna.logging.set_verbosity(optuna.logging.WARNING)


def draw_values(array: JobArray, spec: JobSpec) -> dict[str, str]:
    """Return the values of the next element of a locked array."""
    assert spec.elements is not None
    if spec.search is None or not _learns(spec.search, array.made):
        return spec.elements.values_at(array.made)
    return draw(spec.search, load_trials(array, spec.search), array.made)


def draw(wish: SearchWish, seen: Iterable[Trial], number: int) -> dict[str, str]:
    """Return the values of trial `number`, from the trials before it. Pure.

    Those that are open count as bad ones, so that the next is not beside them.
    """
    if not _learns(wish, number):
        return wish.values_at(number)
    space = {name: _describe(parameter) for name, parameter in wish.space.items()}
    seed = crc32(f"{wish.seed}:{number}".encode())
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_FIRST, constant_liar=True)
    study = optuna.create_study(sampler=sampler)
    study.add_trials([_replay(trial, wish, space) for trial in seen])
    drawn = study.ask(space).params
    return {name: _show(drawn[name], wish.space[name]) for name in wish.space}


def _learns(wish: SearchWish, number: int) -> bool:
    return wish.method == "tpe" and number >= RANDOM_FIRST


def _replay(trial: Trial, wish: SearchWish, space: dict[str, BaseDistribution]) -> FrozenTrial:
    state, value = TrialState.FAIL, None
    if trial.is_open:
        state = TrialState.RUNNING
    elif trial.state == JobState.SUCCEEDED and trial.score is not None:
        state, value = TrialState.COMPLETE, wish.sign * trial.score
    params = {name: _read(trial.values[name], wish.space[name]) for name in space}
    return create_trial(state=state, value=value, params=params, distributions=space)


def _describe(parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Choices):
        return CategoricalDistribution(parameter.values)
    if parameter.is_whole:
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log)


def _read(text: str, parameter: Parameter) -> str | float | int:
    if isinstance(parameter, Choices):
        return text
    return int(text) if parameter.is_whole else float(text)


def _show(drawn: str | float | int, parameter: Parameter) -> str:
    return str(drawn) if isinstance(parameter, Choices) else parameter.show(float(drawn))
