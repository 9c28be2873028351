"""Stages of a dataset or model: a name, such as prod, for the version that is to be used now."""

import re
from collections.abc import Mapping

from common.errors import FieldError, InvalidInput
from common.locks import lock_rows
from common.text import shorten_text
from datasets.models import Dataset, DatasetStage, DatasetVersion, VersionState
from datasets.naming import STAGE

MOST_STAGES = 20


def list_stages(dataset: Dataset) -> dict[str, int]:
    """Return the number of the version of each stage, by name."""
    return dict(DatasetStage.objects.filter(dataset=dataset).values_list("name", "version__number"))


def change_stages(dataset: Dataset, stages: Mapping[str, int | None]) -> None:
    """Set or remove (None) stages of a dataset whose row is locked. Raises InvalidInput."""
    numbers = {number for number in stages.values() if number is not None}
    rows = lock_rows(DatasetVersion.objects.filter(dataset=dataset, number__in=numbers))
    ready = {row.number: row for row in rows if row.state == VersionState.READY}
    for stage, number in stages.items():
        pointer = f"/stages/{shorten_text(stage)}"
        if not re.fullmatch(STAGE, stage):
            raise InvalidInput([FieldError(pointer, "bad_stage_name", {"got": shorten_text(stage)})])
        if number is None:
            DatasetStage.objects.filter(dataset=dataset, name=stage).delete()
        elif number not in ready:
            raise InvalidInput([FieldError(pointer, "unknown_stage_version", {"name": dataset.name, "got": number})])
        else:
            DatasetStage.objects.update_or_create(dataset=dataset, name=stage, defaults={"version": ready[number]})
    if DatasetStage.objects.filter(dataset=dataset).count() > MOST_STAGES:
        raise InvalidInput([FieldError("/stages", "too_many_stages", {"max": MOST_STAGES})])
