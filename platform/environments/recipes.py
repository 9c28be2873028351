"""A recipe of an environment, and the job that makes it: its run is a shell text of which each line is in the log."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote

from common.errors import FieldError, InvalidInput
from common.text import shorten_text
from datasets.naming import ENVIRONMENT_KIND, MOST_NAME, NAME
from jobs.jobfile.parse import ENVIRONMENT_FOLDER
from jobs.jobfile.shapes import pointer_of
from jobs.jobfile.spec import JobSpec

LABEL = "environment"
"""The label of a build with the environment's name."""
MOST_LINES, MOST_LINE, MOST_FILES, MOST_TEST = 200, 500, 32, 4000
REQUIREMENTS = ".tessera-requirements.txt"
"""Beside the recipe's files, as pip reads `-r` relative to the file that says it."""
ENV = {"PYTHONNOUSERSITE": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PIP_NO_INPUT": "1"}
_UNSEEN = re.compile(r"[\x00-\x1f\x7f]")

# Bytes that depend on the moment would give the same recipe another digest: pip compiles with times, so it does not,
# and all is compiled afterwards by content alone. `python` is the environment's own from the second line on.
MAKE = """set -u
python3 -m venv --copies --system-site-packages "$VIRTUAL_ENV" || exit 1
"""
INSTALL = """log=$(mktemp)
{{ python -m pip install --no-compile --disable-pip-version-check --no-warn-script-location -r {requirements} 2>&1
  echo $? >"$log.status"; }} | tee "$log"
if [ "$(cat "$log.status")" != 0 ]; then
  wants=$(sed -n 's/.*Failed building wheel for \\(.*\\)/\\1/p' "$log" | sort -u | tr '\\n' ' ')
  if [ -n "$wants" ] && ! command -v cc >/dev/null; then
    echo "There is no compiler here for what has to be compiled: $wants- choose a base with one, as -devel images are."
  fi
  exit 1
fi
"""
COMPILE = """find "$VIRTUAL_ENV" -name __pycache__ -type d -prune -exec rm -rf {} +
python -m compileall -q -f --invalidation-mode unchecked-hash "$VIRTUAL_ENV/lib" || echo "Some files do not compile."
"""
TEST = """sh -c {test} || {{ echo "The test failed, so there is no version." >&2; exit 1; }}
"""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What an environment is made of. name: of its team. base: an image, "" for the machines' own Python.

    pip: lines of a requirements file. files: {path below the code: path below the environment}. code: the digest of the
    folder with those, and with what `-r` names. test: a shell text that must succeed. cpu_milli, memory_mib: of the
    build, None for the pool's.
    """

    name: str
    team: str | None = None
    pool: str | None = None
    base: str = ""
    pip: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    test: str = ""
    code: str | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None


def check_recipe(recipe: Recipe) -> None:
    """Raise InvalidInput with all that is wrong with it."""
    if errors := list(_find_errors(recipe)):
        raise InvalidInput(errors)


def build_job_spec(recipe: Recipe) -> JobSpec:
    """Return the job that makes the next version."""
    return JobSpec(
        name=f"{recipe.name}-build"[:63],
        team=recipe.team,
        pool=recipe.pool,
        image=recipe.base or None,
        code=recipe.code,
        run=write_script(recipe),
        env=dict(ENV),
        cpu_milli=recipe.cpu_milli,
        memory_mib=recipe.memory_mib,
        labels={LABEL: recipe.name},
        outputs={ENVIRONMENT_FOLDER: f"{ENVIRONMENT_KIND}:{recipe.name}"},
    )


def write_script(recipe: Recipe) -> str:
    parts = [MAKE]
    if recipe.pip:
        lines = " ".join(quote(line) for line in recipe.pip)
        parts += [f"printf '%s\\n' {lines} >{REQUIREMENTS} || exit 1\n", INSTALL.format(requirements=REQUIREMENTS)]
    parts += [_copy(source, target) for source, target in recipe.files.items()]
    if recipe.test:
        parts.append(TEST.format(test=quote(recipe.test)))
    return "".join([*parts, COMPILE]).strip()


def _copy(source: str, target: str) -> str:
    place = f'"$VIRTUAL_ENV"/{quote(posixpath.normpath(target))}'
    return f'mkdir -p "$(dirname {place})" && cp -R {quote(f"./{posixpath.normpath(source)}")} {place} || exit 1\n'


def _find_errors(recipe: Recipe) -> Iterator[FieldError]:
    if not NAME.fullmatch(recipe.name):
        yield FieldError("/name", "bad_dataset_name", {"got": shorten_text(recipe.name), "max": MOST_NAME})
    if not recipe.pip and not recipe.files:
        yield FieldError("/pip", "recipe_is_empty")
    for at, line in enumerate(recipe.pip):
        if not line.strip() or len(line) > MOST_LINE or _UNSEEN.search(line):
            yield FieldError(f"/pip/{at}", "bad_requirement", {"got": shorten_text(line)})
    for source, target in recipe.files.items():
        if wrong := next((path for path in (source, target) if not _is_below(path)), None):
            yield FieldError(pointer_of(["files", source]), "bad_recipe_file", {"got": shorten_text(wrong)})
    reads = any(re.match(r"\s*(-r|-c|--requirement|--constraint)\b", line) for line in recipe.pip)
    if (recipe.files or reads) and recipe.code is None:
        yield FieldError("/code", "recipe_needs_code")


def _is_below(path: str) -> bool:
    return bool(path) and not path.startswith(("/", "~")) and ".." not in path.split("/") and not _UNSEEN.search(path)
