"""The agent and the logs of its machine's tasks: each byte once, whatever is renamed, packed, removed or restarted."""

import base64
import random
import time
from datetime import UTC, datetime, timedelta

import pytest

from agent.client import PlatformUnavailable
from agent.logs import container, files
from agent.logs.carrier import Carrier
from agent.logs.cri import LONGEST, NO_SECOND, Text
from agent.state import Identity
from runtimes.log_reading import LogReader
from runtimes.log_store import LogStore
from tests.kubelet_logs import LogFolder

TASK, OTHER = "a" * 32, "b" * 32


class Store:
    """In the platform's place: what `jobs.log_ingest` does, in memory."""

    def __init__(self):
        self.kept: dict[str, bytes] = {}
        self.states = {TASK: "open", OTHER: "open"}
        self.ends: dict[str, str] = {}
        self.said: list[dict] = []
        self.away = self.forgets_answers = False
        self.most_bytes = 200 << 20
        self.logs: LogStore | None = None
        """Keeps when bytes were written, where the platform is one that does."""

    def send_logs(self, node, key, said):
        if self.away:
            raise PlatformUnavailable("nobody answers")
        self.said += said["logs"]
        answer = [self.take(piece) for piece in said["logs"]]
        if self.forgets_answers:
            raise PlatformUnavailable("the answer was lost")
        pace = {"most_bytes": self.most_bytes, "pause_s": 0, "ask_every_s": 0}
        return {"logs": answer, **pace} | ({"moments": True} if self.logs else {})

    def take(self, piece):
        task, state = piece["task"], self.states.get(piece["task"], "unknown")
        kept, data = self.kept.get(task, b""), base64.b64decode(piece["content"])
        if state in ("open", "ended") and piece["offset"] <= len(kept):
            self.kept[task] = kept = kept + data[len(kept) - piece["offset"] :]
            if self.logs and data:
                self.logs.append(task, piece["offset"], data, piece["moments"])
            if piece["end"] and state == "ended":
                self.ends[task], self.states[task] = piece["end"], "done"
        return {"task": task, "state": self.states.get(task, "unknown"), "size": len(kept)}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    for module in (files, container):
        monkeypatch.setattr(module, "SETTLE_S", 0.0)
    monkeypatch.setattr("agent.logs.carrier.FULL_S", 0.0)
    monkeypatch.setattr("agent.logs.carrier.FIRST_S", 0.0)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def start(store, tmp_path):
    """start() → an agent's carrier, after the one before was killed."""
    started: list[Carrier] = []

    def begin() -> Carrier:
        if started:
            started[-1].close()
        identity = Identity("http://platform", "tag_key", "g1")
        started.append(Carrier(store, lambda: identity, tmp_path / "pods", "tessera", tmp_path / "notes"))
        return started[-1]

    yield begin
    started[-1].close() if started else None


@pytest.fixture
def folder(tmp_path):
    return LogFolder(tmp_path / "pods", TASK)


def rounds(carrier: Carrier, count: int = 8) -> None:
    for _ in range(count):
        carrier.send_batch()


def test_lines_of_both_streams_come_in_the_order_written_and_once(start, store, folder):
    carrier = start()
    folder.write("one")
    folder.write("error", "stderr")
    rounds(carrier)
    assert store.kept[TASK] == b"one\nerror\n"
    folder.write("two")
    rounds(carrier)
    assert store.kept[TASK] == b"one\nerror\ntwo\n"
    assert sum(len(base64.b64decode(piece["content"])) for piece in store.said) == len(store.kept[TASK])


def test_parts_of_a_line_are_joined_and_last_words_need_no_newline(start, store, folder):
    folder.write("x" * 9000, tag="P")
    folder.write("y" * 100)
    folder.write("tail", tag="P")
    rounds(start())
    assert store.kept[TASK] == b"x" * 9000 + b"y" * 100 + b"\ntail"


def test_a_line_that_is_too_long_is_cut_and_says_so():
    text = Text()
    first, _ = text.feed(b"t stdout P " + b"x" * LONGEST + b"\n")
    again = Text(text.state)  # a restart in between
    rest, _ = again.feed(b"t stdout P yyy\nt stdout F zz\nt stdout F next\n")
    assert first == b"x" * LONGEST
    assert rest == b"\n[tessera] 5 bytes of this line are not kept: a line ends at 16384\nnext\n"


def test_a_progress_bar_is_no_long_line():
    text, bar = Text(), b"50 %\r" * 3000
    shown, _ = text.feed(b"t stdout P " + bar + b"\nt stdout P " + bar + b"\nt stdout F done\n")
    assert shown == bar + bar + b"done\n"


def test_a_line_bears_the_second_in_which_it_was_written(start, store, folder, tmp_path):
    store.logs, seconds = LogStore(tmp_path / "logs"), []
    for number in range(6):
        folder.clock += timedelta(seconds=number)
        seconds += [int((folder.clock + timedelta(microseconds=1)).timestamp())]
        folder.write(f"line {number}")
        rounds(start(), 1 + number % 3)  # another agent each time, of which some send nothing
        if number == 3:
            folder.rotate()
    rounds(start())
    log = LogReader(store.logs, TASK)
    assert log.read_times(0, log.size)[1] == seconds


def test_an_older_platform_is_sent_no_times(start, store, folder):
    folder.write("line")
    rounds(start())
    assert store.kept[TASK] == b"line\n" and not any("moments" in piece for piece in store.said)


def test_what_is_no_line_of_the_engine_is_passed_on():
    assert Text().feed(b"half a li\n2026 stdout F good\n\n") == (b"half a li\ngood\n\n", [(0, NO_SECOND)])


def test_each_second_is_told_once_and_what_says_none_is_not_known():
    lines = (
        b"2026-11-22T01:57:07.039163892Z stdout F first\n2026-11-22T01:57:07.9Z stderr F also\n"
        b"2026-11-22T02:57:09.1+01:00 stdout F later\nno moment\n"
    )
    text, moments = Text().feed(lines)
    begin = int(datetime(2026, 11, 22, 1, 57, 7, tzinfo=UTC).timestamp())
    assert text == b"first\nalso\nlater\nno moment\n"
    assert moments == [(0, begin), (11, begin + 2), (17, NO_SECOND)]


def test_renamed_packed_and_removed_files_lose_and_double_nothing(start, store, folder):
    carrier, wanted = start(), b""
    for number in range(12):  # more files than the kubelet keeps
        lines = "\n".join(f"file {number} line {line}" for line in range(200))
        folder.write(lines)
        wanted += lines.encode() + b"\n"
        rounds(carrier, 1)  # it has not read all, and sees each file
        folder.rotate()
        rounds(carrier, 2)
    folder.write("last")
    rounds(carrier)
    assert store.kept[TASK] == wanted + b"last\n"


def test_an_agent_that_is_killed_anywhere_goes_on_where_it_was(start, store, folder):
    dice, carrier, wanted = random.Random(7), start(), b""
    for number in range(300):
        line = f"{number} " + "x" * dice.randrange(2000)
        folder.write(line)
        wanted += line.encode() + b"\n"
        if dice.random() < 0.1:
            folder.rotate()
        store.away, store.forgets_answers = dice.random() < 0.1, dice.random() < 0.2
        if dice.random() < 0.6:
            rounds(carrier, 1)
        if dice.random() < 0.1:
            carrier = start()
            rounds(carrier, 1)
    store.away = store.forgets_answers = False
    rounds(carrier, 20)
    assert store.kept[TASK] == wanted


def test_what_was_removed_while_no_agent_ran_is_told(start, store, folder):
    folder.write("first")
    rounds(start())
    for number in range(8):
        folder.write(f"file {number}")
        folder.rotate()
    folder.write("last")
    rounds(start(), 20)
    lines = store.kept[TASK].split(b"\n")
    assert lines[0] == b"first" and b"missing here" in lines[2] and lines[-2] == b"last"


def test_an_ended_log_is_whole_when_all_is_sent_even_after_its_files_are_gone(start, store, folder):
    carrier = start()
    folder.write("\n".join(map(str, range(200_000))))
    rounds(carrier, 1)
    folder.remove()  # as a kubelet does seconds after a deleted pod has ended
    rounds(carrier, 40)
    assert not store.ends and store.kept[TASK].endswith(b"\n199999\n")
    store.states[TASK] = "ended"
    rounds(carrier)
    assert store.ends == {TASK: "whole"} and carrier.logs == {}
    assert list((carrier.folder).iterdir()) == []


def test_a_log_whose_end_is_gone_before_the_agent_came_back_is_cut(start, store, folder):
    folder.write("one")
    rounds(start())
    folder.write("two")
    folder.remove()
    store.states[TASK] = "ended"
    rounds(start())
    assert store.ends == {TASK: "cut"} and store.kept[TASK] == b"one\n"


def test_a_task_that_wrote_nothing_is_whole(start, store, folder):
    store.states[TASK] = "ended"
    rounds(start())
    assert store.ends == {TASK: "whole"}


def test_a_done_log_is_not_read_again_by_the_next_agent(start, store, folder):
    folder.write("one")
    store.states[TASK] = "ended"
    rounds(start())
    store.said.clear()
    rounds(start())
    assert [piece["content"] for piece in store.said] == [""]


def test_only_pods_of_this_platform_are_read(start, store, tmp_path):
    LogFolder(tmp_path / "pods", TASK, install="other").write("theirs")
    LogFolder(tmp_path / "pods", "f" * 32).write("of a task that the platform does not know")
    rounds(start())
    assert store.kept == {} and {piece["content"] for piece in store.said} == {""}


def test_the_middle_of_a_log_that_is_too_long_is_left_out(start, store, folder):
    store.most_bytes = container.TAIL + 1000
    carrier = start()
    for number in range(4):
        folder.write("\n".join(f"{number} {line}" for line in range(100_000)))
        rounds(carrier, 4)
    store.states[TASK] = "ended"
    rounds(carrier, 20)
    kept = store.kept[TASK]
    assert kept.startswith(b"0 0\n0 1\n") and kept.endswith(b"3 99998\n3 99999\n")
    assert b"bytes are not kept here: the log is full; its last part follows\n" in kept
    assert len(kept) < store.most_bytes + 200 and store.ends == {TASK: "whole"}


def test_a_flood_does_not_hold_up_another_task(start, store, folder, tmp_path):
    carrier, other = start(), LogFolder(tmp_path / "pods", OTHER)
    folder.write("x" * 1000 + ("\n" + "x" * 1000) * 20_000)
    rounds(carrier, 2)
    other.write("quiet")
    rounds(carrier, 3)
    assert store.kept[OTHER] == b"quiet\n" and len(store.kept[TASK]) < 10_000_000


def test_the_age_of_what_is_not_brought_is_told(start, store, folder):
    folder.clock = folder.clock.replace(year=folder.clock.year - 1)
    folder.write("\n".join(["x" * 1000] * 2000))
    rounds(start(), 2)
    assert 364 * 86_400 < store.said[-1]["behind_s"] < 367 * 86_400


def test_a_store_that_lost_a_log_gets_it_again(start, store, folder):
    carrier = start()
    folder.write("one")
    rounds(carrier)
    store.kept.clear()
    folder.write("two")
    rounds(carrier)
    assert store.kept[TASK] == b"one\ntwo\n"


def test_a_carrier_of_its_own_follows_within_a_second(start, store, folder):
    carrier = start()
    carrier.start()
    try:
        folder.write("now")
        until = time.monotonic() + 5
        while store.kept.get(TASK) != b"now\n" and time.monotonic() < until:
            time.sleep(0.02)
        assert store.kept[TASK] == b"now\n"
    finally:
        carrier.stop()


def test_what_the_platform_holds_back_is_sent_again_with_what_follows(start, store, folder):
    """As it does where a value of a secret may begin: here with the last four bytes until the end."""
    take, store.held = store.take, 4

    def hold(piece):
        content = base64.b64decode(piece["content"])
        kept = content if piece["end"] else content[: max(len(content) - store.held, 0)]
        return take({**piece, "content": base64.b64encode(kept).decode()})

    store.take = hold
    carrier = start()
    folder.write("first")
    rounds(carrier)
    assert store.kept[TASK] == b"fi"
    store.said.clear()
    rounds(carrier)
    assert all(piece["content"] == "" for piece in store.said)  # nothing new: it only asks
    folder.write("second")
    rounds(carrier)
    assert store.kept[TASK] == b"first\nsec"
    carrier = start()
    rounds(carrier)
    assert store.kept[TASK] == b"first\nsec"
    store.states[TASK] = "ended"
    rounds(carrier)
    assert store.kept[TASK] == b"first\nsecond\n" and store.ends[TASK] == "whole"
