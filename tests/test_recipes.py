"""What guides and recipes tell people to write is what the platform reads: job files, commands and variables."""

import ast
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
import typer.main

from cli.main import COMMANDS
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from runtimes.contract.task import Peer, TaskSpec
from runtimes.environment import build_task_environment

ROOT = Path(__file__).parents[1]
FOLDERS = [ROOT / "docs" / name for name in ("guides", "recipes", "zh")]
PAGES = [ROOT / "docs/first-ten-minutes.md", *sorted(path for folder in FOLDERS for path in folder.rglob("*.md"))]
SLURM = ROOT / "docs/recipes/slurm.md"
HOUSE = re.compile(r"\bTESSERA_\w+|\b(?:RANK|WORLD_SIZE|MASTER_\w+|OMP_NUM_THREADS)\b")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language, also of those inside lists."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def commands(text: str) -> list[str]:
    """The `tessera ...` lines of a page's shells and of its tables."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    return [found[1] for line in lines if (found := re.search(r"(?:^|\s)(tessera .+)$", line))]


def parse_command(line: str) -> None:
    """As typed; what is no command, option or argument of it raises."""
    name, *words = shlex.split(line, comments=True)[1:]
    group = typer.main.get_group(import_module(f"cli.commands.{COMMANDS[name][0]}").commands)
    command = group.commands[name]
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_job_files_and_commands_are_read(page):
    text = page.read_text()
    for block in blocks(text, "yaml"):
        parse_spec(load_jobfile(block.encode()))
    for line in commands(text):
        parse_command(line)
    for block in blocks(text, "python"):
        ast.parse(block)


@pytest.mark.parametrize("page", sorted((ROOT / "docs/zh").rglob("*.md")), ids=lambda path: path.name)
def test_a_chinese_page_shows_what_the_english_one_shows(page):
    english = ROOT / "docs" / page.relative_to(ROOT / "docs/zh")
    for language in ("sh", "yaml"):
        shown, meant = (uncommented(blocks(path.read_text(), language)) for path in (page, english))
        assert shown == meant
    assert heading_levels(page) == heading_levels(english)


def uncommented(shown: list[str]) -> list[str]:
    return [re.sub(r" *#.*", "", block) for block in shown]


def heading_levels(page: Path) -> list[str]:
    without_blocks = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^(#+) ", without_blocks, re.MULTILINE)


def test_a_command_that_does_not_exist_would_be_found():
    with pytest.raises(KeyError):
        parse_command("tessera sbatch job.yaml")
    with pytest.raises(Exception, match="gres"):
        parse_command("tessera submit job.yaml --gres 1")


def table(text: str, heading: str) -> list[list[str]]:
    section = text.split(f"## {heading}")[1].split("\n## ")[0]
    return [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]


def test_the_tables_for_people_of_slurm_say_what_is_read():
    text = SLURM.read_text()
    for _, ours in table(text, "Commands"):
        parse_command(ours.strip(" |`"))
    lines = [found[1] for _, ours, *_ in table(text, "Job files") if (found := re.match(r"\s*`(\w+: .+)`", ours))]
    assert len(lines) > 15
    for line in lines:
        parse_spec(load_jobfile(f"run: a\n{line}\n".encode()))


def test_the_variables_that_pages_name_are_those_that_a_task_gets():
    peers = (Peer("10.0.0.1", "main"), Peer("10.0.0.2", "main"))
    spec = TaskSpec("a", "job-1", 1, "n1", "true", peers=peers, ports=(23_000,))
    given = {
        *build_task_environment(spec, "/seen", {}, {}),
        "TESSERA_TEAM_FOLDER",  # of a person's files, by each runtime
        "TESSERA_URL",  # of the command
        "TESSERA_TOKEN",
        "TESSERA_ARRAY_INDEX",  # of an element of an array
    }
    named = {name for page in PAGES for name in HOUSE.findall(page.read_text())}
    assert {name for name in named if not name.startswith("TESSERA_PORT")} <= given
