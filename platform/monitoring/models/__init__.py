"""Tables of the monitoring room."""

from monitoring.models.now import CardNow, NodeNow, Source, TaskNow
from monitoring.models.series import FinePack, HourPack, MinutePack, Pack, PackedUntil, Sample
from monitoring.models.usage import TaskUse, TaskUseNow

__all__ = [
    "CardNow",
    "FinePack",
    "HourPack",
    "MinutePack",
    "NodeNow",
    "Pack",
    "PackedUntil",
    "Sample",
    "Source",
    "TaskNow",
    "TaskUse",
    "TaskUseNow",
]
