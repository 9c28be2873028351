"""How job files name datasets: `dataset:corpus`, `dataset:corpus@v7`, `model:vision/bert@prod`.

An environment has a key of its own there, `environment: sd-train@v3`.
"""

import re
from dataclasses import dataclass

MOST_NAME = 64
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?")
STAGE = r"(?!v[0-9])[a-z][a-z0-9-]{0,31}"
"""Of the name of a stage, which is never written as a version is."""
TEXT = (
    r"(dataset|model):([a-z0-9][a-z0-9._-]{0,63}/)?[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?(@(v[1-9][0-9]{0,8}|"
    + STAGE
    + "))?"
)
"""Of a whole name, also for JSON Schema."""
OUTPUT = r"(dataset|model|environment):[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?"
"""Of one that a job makes: of its own team, and always the next version."""
ENVIRONMENT = r"([a-z0-9][a-z0-9._-]{0,63}/)?[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?(@(v?[1-9][0-9]{0,8}|" + STAGE + "))?"
"""Of an environment, without its kind, also for JSON Schema."""
ENVIRONMENT_KIND = "environment"
_WHOLE = re.compile(r"(dataset|model|environment):(?:([^/@]+)/)?([^/@]+)(?:@(?:v([0-9]+)|(.+)))?")


@dataclass(frozen=True)
class DatasetName:
    """team: "" for the job's own. number: None for the newest version, or that of the stage where one is named."""

    kind: str
    team: str
    name: str
    number: int | None
    stage: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.in_kind}"

    @property
    def in_kind(self) -> str:
        """Without its kind, as the key of environments has it."""
        team = f"{self.team}/" if self.team else ""
        version = f"v{self.number}" if self.number else self.stage
        return f"{team}{self.name}" + (f"@{version}" if version else "")


def is_dataset_name(text: str) -> bool:
    """Return whether it is meant as one, rightly written or not."""
    return text.startswith(("dataset:", "model:", "environment:"))


def is_environment_name(text: str) -> bool:
    return text.startswith(f"{ENVIRONMENT_KIND}:")


def read_dataset_name(text: str) -> DatasetName | None:
    """Return the parts of a name of any kind, None if it is not written as one."""
    kind, _, rest = text.partition(":")
    written = (kind == ENVIRONMENT_KIND and re.fullmatch(ENVIRONMENT, rest)) or re.fullmatch(TEXT, text)
    if not written or (found := _WHOLE.fullmatch(text)) is None:
        return None
    return DatasetName(found[1], found[2] or "", found[3], int(found[4]) if found[4] else None, found[5] or "")


def read_environment_name(text: str) -> DatasetName | None:
    """Return the parts of `sd-train@3`, `vision/sd-train@v3` or `sd-train`, None if it is not written as one."""
    if not re.fullmatch(ENVIRONMENT, text):
        return None
    return read_dataset_name(f"{ENVIRONMENT_KIND}:{re.sub('@v?(?=[1-9])', '@v', text)}")
