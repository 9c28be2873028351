"""Tables of the monitoring room."""

from monitoring.models.alerts import (
    Action,
    Alert,
    AlertRound,
    AlertRule,
    AlertState,
    Audience,
    Comparison,
    ForeignAlert,
    Severity,
    Silence,
    Subject,
)
from monitoring.models.checks import CheckState, NodeCheck, NodeCheckChange, ProcessNow
from monitoring.models.engine import RemoteWrite
from monitoring.models.idle import Exemption, IdleRule, IdleSnooze, IdleTold, IdleTouch, IdleWatch
from monitoring.models.now import CardNow, NodeNow, Source, TaskNow
from monitoring.models.prices import Price
from monitoring.models.report_mails import ReportMail, Rhythm
from monitoring.models.series import FinePack, HourPack, MinutePack, Pack, PackedUntil, Sample
from monitoring.models.usage import TaskUse, TaskUseNow
from monitoring.models.usage_day import UsageDay, UsageSettled

__all__ = [
    "Action",
    "Alert",
    "AlertRound",
    "AlertRule",
    "AlertState",
    "Audience",
    "CardNow",
    "CheckState",
    "Comparison",
    "Exemption",
    "FinePack",
    "ForeignAlert",
    "HourPack",
    "IdleRule",
    "IdleSnooze",
    "IdleTold",
    "IdleTouch",
    "IdleWatch",
    "MinutePack",
    "NodeCheck",
    "NodeCheckChange",
    "NodeNow",
    "Pack",
    "PackedUntil",
    "Price",
    "ProcessNow",
    "RemoteWrite",
    "ReportMail",
    "Rhythm",
    "Sample",
    "Severity",
    "Silence",
    "Source",
    "Subject",
    "TaskNow",
    "TaskUse",
    "TaskUseNow",
    "UsageDay",
    "UsageSettled",
]
