"""Draw docs/images/architecture.svg: the tower of packages with their rooms, and the way of a job through them.

The bands are the layers of import-linter's contract in pyproject.toml, the rooms are the folders of the tree, and each
step of the way names a function that must stand where the picture says. `bin/check` compares the file with what is
drawn here; `bin/check --fix` writes it.
"""

import ast
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path

from dev.code_metrics import ROOT

PICTURE = ROOT / "docs/images/architecture.svg"
TOWER = "One tower: every package imports only downward"
WIDTH, MARGIN, GAP, LINE = 1180, 24, 12, 17
TOWER_WIDTH = 640
COLUMNS = 4
BADGE, NAME_LETTER, ROOM_LETTER = 9, 9.0, 7.3
"""Radius of a number's circle, and widths of a letter in the names of packages and rooms."""


@dataclass(frozen=True)
class Step:
    """One step of a job's way: where it is done, by which function, and what happens."""

    path: str
    function: str
    text: str

    @property
    def room(self) -> str:
        return str(Path(self.path).parent).removeprefix("platform/")


WAY = (
    Step("portal/api/jobs/jobs.py", "post", "The door takes the job file"),
    Step("platform/jobs/jobfile/parse.py", "parse_spec", "Every mistake is named with its field"),
    Step("scheduler/preview/preview.py", "check_possible", "What could never run is refused"),
    Step("platform/jobs/submit.py", "submit_job", "The job and its PENDING tasks are stored"),
    Step("scheduler/tasks.py", "cycle", "A hint or the beat runs a cycle, under its lease"),
    Step("scheduler/loading/snapshots.py", "load_world", "Rows become a snapshot of arrays"),
    Step("scheduler/core/cycle.py", "run_cycle", "Pure code decides: a plan, and why the rest waits"),
    Step("scheduler/commit/starting.py", "start_jobs", "Locks, sums, holdings; tasks become ASSIGNED"),
    Step("scheduler/reconcile/compare.py", "compare", "Rows and containers are compared: what to start"),
    Step("platform/runtimes/local/runtime.py", "start", "A process or a pod is started"),
    Step("platform/events/transitions.py", "advance", "Each change of state is an event, and pages hear of it"),
)


def check(fix: bool) -> str:
    """What is wrong, "" when nothing is. fix: draw it anew."""
    if missing := [step for step in WAY if not defines(step)]:
        return "\n".join(f"{step.path} has no function {step.function}: see WAY" for step in missing)
    picture = draw()
    if fix:
        PICTURE.write_text(picture)
    if not PICTURE.exists() or PICTURE.read_text() != picture:
        return f"{PICTURE.relative_to(ROOT)} is not what the tree says; bin/check --fix draws it anew."
    return ""


def defines(step: Step) -> bool:
    path = ROOT / step.path
    if not path.exists():
        return False
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    return any(node.name == step.function for node in functions)


def draw() -> str:
    bands = [draw_band(layer) for layer in read_layers()]
    top = MARGIN + 34
    parts = []
    for height, body in bands:
        parts.append(f'<g transform="translate({MARGIN} {top})">{body}</g>')
        top += height + GAP
    way = draw_way(top - GAP)
    title = "Tessera: the tower of packages, each importing only downward, and the way of a job through its rooms"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + MARGIN - GAP}" role="img">\n'
        f"<title>{title}</title>\n{STYLE}\n"
        f'<rect class="page" width="{WIDTH}" height="{top + MARGIN - GAP}"/>\n'
        f'<text class="head" x="{MARGIN}" y="{MARGIN + 14}">Packages: imports lead downward</text>\n'
        f'<text class="head" x="{MARGIN + TOWER_WIDTH + 3 * GAP}" y="{MARGIN + 14}">The way of a job</text>\n'
        + "\n".join(parts)
        + f"\n{way}\n</svg>\n"
    )


def read_layers() -> list[list[str]]:
    """The packages of each floor, from the top; those on one floor do not know each other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == TOWER)
    floors = [[name.strip() for name in layer.split("|")] for layer in layers]
    return [floor for floor in floors if all(folder_of(name).is_dir() for name in floor)]


def folder_of(package: str) -> Path:
    beside = ROOT / package
    return beside if beside.is_dir() else ROOT / "platform" / package


def list_rooms(package: str) -> list[str]:
    """Folders of a package that hold Python files, "" for its own."""
    top = folder_of(package)
    folders = sorted({path.parent for path in top.rglob("*.py") if path.name != "__init__.py"})
    names = ("" if folder == top else str(folder.relative_to(top)) for folder in folders)
    return [name for name in names if not name.startswith(("migrations", "management"))]


def draw_band(packages: list[str]) -> tuple[int, str]:
    """One floor: its height, and its boxes side by side."""
    width = (TOWER_WIDTH - GAP * (len(packages) - 1)) / len(packages)
    columns = max(1, COLUMNS // len(packages))
    boxes = [draw_box(name, width, columns) for name in packages]
    height = max(height for height, _ in boxes)
    body = "".join(
        f'<g transform="translate({place * (width + GAP):.0f} 0)">'
        f'<rect class="box" width="{width:.0f}" height="{height}" rx="8"/>{text}</g>'
        for place, (_, text) in enumerate(boxes)
    )
    return height, body


def draw_box(package: str, width: float, columns: int) -> tuple[int, str]:
    rooms = [room for room in list_rooms(package) if room]
    text = f'<text class="name" x="12" y="22">{escape(package)}</text>' + draw_badges(
        package, 12 + NAME_LETTER * len(package)
    )
    column = (width - 24) / columns
    for place, room in enumerate(rooms):
        x, y = 12 + column * (place % columns), 42 + LINE * (place // columns)
        text += f'<text class="room" x="{x:.0f}" y="{y}">{escape(room)}</text>'
        text += draw_badges(f"{package}/{room}", x + ROOM_LETTER * len(room), y - 4)
    return 32 + LINE * -(-len(rooms) // columns) + (4 if rooms else 0), text


def draw_badges(room: str, x: float, y: float = 18) -> str:
    numbers = [number for number, step in enumerate(WAY, 1) if step.room == room]
    return "".join(draw_badge(number, x + 14 + place * 2.2 * BADGE, y) for place, number in enumerate(numbers))


def draw_badge(number: int, x: float, y: float) -> str:
    return (
        f'<circle class="badge" cx="{x:.0f}" cy="{y:.0f}" r="{BADGE}"/>'
        f'<text class="number" x="{x:.0f}" y="{y + 4:.0f}">{number}</text>'
    )


def draw_way(bottom: float) -> str:
    """The steps, from the top of the picture to its bottom."""
    left, top = MARGIN + TOWER_WIDTH + 3 * GAP, MARGIN + 34
    height = (bottom - top) / len(WAY)
    parts = [f'<line class="way" x1="{left + 14}" y1="{top + 22}" x2="{left + 14}" y2="{bottom - height + 22:.0f}"/>']
    for number, step in enumerate(WAY, 1):
        y = top + (number - 1) * height + 22
        parts.append(draw_badge(number, left + 14, y))
        parts.append(f'<text class="step" x="{left + 36}" y="{y - 1:.0f}">{escape(step.text)}</text>')
        where = f"{step.path}: {step.function}"
        parts.append(f'<text class="room" x="{left + 36}" y="{y + 15:.0f}">{escape(where)}</text>')
    return "".join(parts)


STYLE = """<style>
svg { font-family: system-ui, -apple-system, "Segoe UI", sans-serif }
.page { fill: #ffffff } .box { fill: #f4f6fa; stroke: #c3cbd9 } .way { stroke: #c3cbd9; stroke-width: 2 }
.head { font-size: 15px; font-weight: 600; fill: #1d2433 } .name { font-size: 14px; font-weight: 600; fill: #1d2433 }
.step { font-size: 14px; fill: #1d2433 } .room { font-size: 12px; font-family: ui-monospace, monospace; fill: #566076 }
.badge { fill: #2f5fd0 } .number { font-size: 11px; font-weight: 600; fill: #ffffff; text-anchor: middle }
@media (prefers-color-scheme: dark) {
.page { fill: #11151d } .box { fill: #1a202c; stroke: #3a4456 } .way { stroke: #3a4456 }
.head, .name, .step { fill: #e6e9f0 } .room { fill: #a3adbf } .badge { fill: #5b86ee } .number { fill: #11151d }
}
</style>"""
