"""Escapes, widths, and tables of 80 columns."""

import pytest

from cli.commands.jobs.listing import COLUMNS, OWNER, _row
from cli.output.cells import describe_next, format_duration, format_gpus, format_place, format_wait_or_run, now
from cli.output.safe_text import LogText, cut, plain, width
from cli.output.table import lay_out
from tests.cli_server import a_job, ended

LOG = (
    "a\x1b[31mred\x1b[0m b\x1b[2J c\x1b]0;title\x07 d\x1b]8;;http://x\x1b\\link e\x1bPq1\x1b\\ f"
    "\x9b31mg\x1b(B h\x08\x7f\r\n\ti\x1bc"
)


def through(text: str, colour: bool, size: int) -> str:
    data, log = text.encode(), LogText(colour)
    return "".join(log.feed(data[i : i + size]) for i in range(0, len(data), size)) + log.end()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_log_keeps_its_colours_on_a_terminal_and_nothing_else_of_its_escapes(size):
    assert through(LOG, True, size) == "a\x1b[31mred\x1b[0m b c dlink e fg h\r\n\ti\x1b[0m".replace(
        "dlink", " dlink"[1:]
    )


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_log_in_a_file_has_no_escapes(size):
    assert through(LOG, False, size) == "ared b c dlink e fg h\r\n\ti"


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("start", ["\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x9d", "\x1b["])
def test_an_unfinished_sequence_hides_no_later_line(start, size):
    shown = through(f"{start}{'9' * 1500}\nreal\n", False, size)
    assert shown.endswith("\nreal\n")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_characters_may_be_cut_anywhere_and_bad_bytes_are_marked(size):
    assert through("第é🧩 ok", False, size) == "第é🧩 ok"
    log = LogText(False)
    assert log.feed(b"\xff\xe7") + log.end() == "\ufffd\ufffd"


def test_an_escape_at_the_very_end_is_not_shown():
    for tail in ("\x1b", "\x1b[", "\x1b[3", "\x1b]0;x", "\x1b]0;x\x1b"):
        assert through(f"ok{tail}", True, 1) == "ok"


def test_plain_text_is_one_line_without_unseen_characters():
    assert plain("a\x1b[1mb\nc\u202ed\u2028e\x00é第") == "a\ufffd[1mb c\ufffdd\ufffde\ufffdé第"


def test_wide_characters_count_two_and_are_cut_whole():
    assert (width("队列ab"), cut("队列ab", 4), cut("队列ab", 6), cut("ab", 0)) == (6, "队…", "队列ab", "")


@pytest.mark.parametrize(
    ("gpu", "nodes", "shown"),
    [("1/4", 1, "¼"), ("H100/4", 1, "¼ H100"), ("H100:8", 4, "4×8 H100"), ("H100", 1, "1 H100"), ("2", 1, "2"),
     ("0", 1, "–"), ("0", 3, "3×0"), ("10GB", 1, "10GB"), ("A100:10GB", 1, "10GB A100"),
     ("H100,A100:2", 1, "2 H100,A100"), ("V100:3/4", 1, "¾ V100"), ("V100-32GB", 1, "1 V100-32GB"),
     ("V100-32GB/8", 1, "⅛ V100-32GB"), ("1/7", 2, "2×1/7")],
)  # fmt: skip
def test_gpus_are_short(gpu, nodes, shown):
    assert format_gpus(a_job(gpu=gpu, nodes=nodes)) == shown


def test_what_the_roles_of_a_job_ask_is_added_up():
    roles = [{"name": n, "gpu": gpu, "least": least} for n, gpu, least in (("head", "0", 1), ("w", "A100:2", 4))]
    assert format_gpus(a_job(state="queued", roles=roles)) == "– + 4×2 A100"
    started = [{"role": name, "node": "n1", "gpus": []} for name in ("head", "w", "w", "w", "w", "w")]
    assert format_gpus(a_job(roles=roles, tasks=started)) == "– + 5×2 A100"


def test_places_times_and_ends_are_short():
    two = [{"node": n, "gpus": [{"place": "0"}, {"place": "1:4"}]} for n in ("n1", "n2", "n2")]
    assert (
        format_place(a_job(tasks=two)) == "n1:0,1:4 +1"
        and format_place(a_job(tasks=[{"node": None, "gpus": []}])) == "–"
    )
    assert [format_duration(s) for s in (-5, 41, 725, 7800, 7200, 273_600)] == [
        "0s",
        "41s",
        "12m",
        "2h10m",
        "2h",
        "3d4h",
    ]
    assert format_wait_or_run(ended(), now()) == "2h10m"
    failed = ended(state="failed", reason="exit_nonzero", exit_code=3)
    assert describe_next(failed, now()) == "exit 3" and describe_next(ended(), now()) == "–"
    assert describe_next(a_job(state="queued"), now()) == "#2 · the team is at its limit"
    assert describe_next(a_job(state="queued", held=True, held_by="bob"), now()) == "held by bob"


def test_a_table_fits_80_columns_with_long_names_in_wide_characters():
    jobs = [
        a_job(
            123456,
            "cancelled",
            name="训练" * 30,
            gpu="H100-SXM5-80GB,A100:8",
            nodes=16,
            owner="somebody-long",
            reason_text="word " * 40,
        )
    ]
    for columns, owner in ((COLUMNS, False), ((*COLUMNS[:2], OWNER, *COLUMNS[2:]), True)):
        lines = lay_out(columns, [_row(job, owner) for job in jobs], 80)
        assert max(map(width, lines)) <= 80 and len(lines) == 2
        assert "job-123456" in lines[1] and "…" in lines[1]


def test_without_a_terminal_nothing_is_cut():
    lines = lay_out(COLUMNS, [_row(a_job(state="queued", name="n" * 200), False)], 0)
    assert "n" * 200 in lines[1]
