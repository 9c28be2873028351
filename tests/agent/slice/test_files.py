"""The two files: what is missing, broken or garbled fails closed with one line; resizing while programs run."""

import os
import random

import pytest

from tests.agent_slice import CARDS, LIMIT, MIB, run
from tests.whole import part_of

NOT_READY = 802


def overwrite(path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def remove(name):
    return lambda where: (where / name).unlink()


def cut(name, size):
    return lambda where: os.truncate(where / name, size)


def put(name, at, content):
    return lambda where: overwrite(where / name, at, content)


@pytest.mark.parametrize(
    "harm",
    [
        remove("usage"), cut("limits", 0), cut("limits", 100), cut("usage", 4096), put("limits", 0, b"X"),
        put("usage", 0, b"X"), put("limits", 8, b"\2"), put("usage", 8, b"\2"), put("limits", 12, b"\0"),
        put("limits", 12, b"\x11"), put("limits", 64, b"XX"), put("usage", 16, b"XXXXXXXX"),
        put("usage", 12, b"\xff" * 4),
    ],
)  # fmt: skip
def test_broken_files_fail_closed_with_one_line(a_slice, harm):
    harm(a_slice.path)
    done = a_slice.run("start")
    assert done.stdout == f"{NOT_READY}\n"
    assert done.stderr.startswith("Tessera: ") and done.stderr.count("\n") == 1
    assert "Stop the task and start it again" in done.stderr and f"slicectl show {a_slice.path}" in done.stderr
    assert run([a_slice.built.slicectl, "show", a_slice.path]).returncode == 1


def test_without_any_files_it_fails_closed(a_slice):
    (a_slice.path / "limits").unlink()
    (a_slice.path / "usage").unlink()
    done = a_slice.run("start")
    assert done.stdout == f"{NOT_READY}\n" and "a file is missing" in done.stderr and done.stderr.count("\n") == 1


def test_files_that_may_not_be_opened_or_are_no_files(a_slice):
    for name in ("limits", "usage"):
        (a_slice.path / name).unlink()
        (a_slice.path / name).mkdir()
        done = a_slice.run("start")
        assert done.stdout == f"{NOT_READY}\n" and done.stderr.count("\n") == 1
        (a_slice.path / name).rmdir()
        (a_slice.path / name).write_bytes(b"")


def test_a_limit_garbled_while_a_program_runs_is_a_limit_of_nothing(a_slice, processes):
    processes.append(a_slice.held(1000))
    overwrite(a_slice.path / "limits", 64 + 32, b"\xff\xff")
    processes[0].stdin.write("x")
    processes[0].stdin.flush()
    assert processes[0].stdout.readline() == "0 0 0\n"
    assert a_slice.held(1).answer == 2


def test_resizing_while_a_program_runs(a_slice, processes):
    processes.append(a_slice.held(10 * MIB))
    slicectl, where = a_slice.built.slicectl, a_slice.path

    def resize(size) -> int:
        done = run([slicectl, "resize", where, f"{CARDS[0]}={size}"])
        processes[0].stdin.write("x")
        processes[0].stdin.flush()
        told = processes[0].stdout.readline().split()
        assert int(told[2]) - int(told[1]) == 10 * MIB
        return done.returncode, int(told[2])

    assert resize("100MiB") == (0, 100 * MIB)
    assert resize(10 * MIB) == (0, 10 * MIB)  # down to what is used
    assert resize(10 * MIB - 1) == (3, 10 * MIB)  # not below it
    assert a_slice.held(1).answer == 2
    assert resize("11MiB") == (0, 11 * MIB)
    assert a_slice.held(MIB).answer == 0
    assert a_slice.show()["cards"][1]["limit_bytes"] == LIMIT // 2


def test_the_limits_may_be_read_only(a_slice, processes):
    (a_slice.path / "limits").chmod(0o444)
    processes.append(a_slice.held(LIMIT))
    assert processes[0].answer == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["create", "{new}"], 2), (["create", "{new}", "GPU-1=5"], 2), (["create", "{new}", f"{CARDS[0]}=5XB"], 2),
        (["create", "{new}", f"{CARDS[0]}=-5"], 2), (["create", "{new}", f"{CARDS[0]}=281474976710656"], 2),
        (["create", "{new}", f"{CARDS[0]}=18446744073709551615GiB"], 2),
        (["create", "{new}", f"{CARDS[0]}=1", f"{CARDS[0]}=1"], 2),
        (["create", "{new}", f"{CARDS[0]}=1", "--context"], 2),
        (["create", "{old}", f"{CARDS[0]}=5"], 1), (["create", "/proc/nowhere/x", f"{CARDS[0]}=5"], 1),
        (["show", "{new}"], 1), (["show", "{old}", "--xml"], 2),
        (["tend", "{new}"], 1), (["tend"], 2), (["resize", "{old}", f"{CARDS[2]}=5"], 1),
        (["resize", "{old}"], 2), (["resize", "{old}", "much"], 2), ([], 2), (["destroy", "{old}"], 2),
    ],
)  # fmt: skip
def test_slicectl_refuses_what_makes_no_sense(a_slice, words, status):
    places = {"old": a_slice.path, "new": a_slice.path / "new"}
    done = run([a_slice.built.slicectl, *[word.format(**places) for word in words]])
    assert done.returncode == status and done.stderr and not done.stdout
    assert a_slice.show()["cards"][0]["limit_bytes"] == LIMIT


def test_sizes_in_words(built, make_slice):
    for text, size in {"1GiB": 1 << 30, "4GB": 4 * 10**9, "7": 7, "3kB": 3000, "2KiB": 2048}.items():
        assert make_slice(built, text).show()["cards"][0]["limit_bytes"] == size, text


def test_what_a_context_costs_is_charged_while_it_lives(built, make_slice, processes):
    one = make_slice(built)
    for name in ("limits", "usage"):
        (one.path / name).unlink()
    one.control("create", f"{CARDS[0]}={LIMIT}", "--context", "1MiB")
    processes += [one.held(LIMIT - MIB + 1), one.held(1)]
    assert [process.answer for process in processes] == [2, 0]
    shown = one.show()
    assert shown["cards"][0]["used_bytes"] == 2 * MIB + 1
    row = min(shown["processes"], key=lambda row: row["cards"][0]["used_bytes"])["cards"][0]
    assert row["context"] and row["refused"] == 1 and row["used_bytes"] == MIB


def fuzz(a_slice, rounds: int, seed: int) -> None:
    """Random bytes in both files, where they hurt most: no program ever dies of it, and none gets more than it may."""
    numbers = random.Random(seed)
    whole = {name: (a_slice.path / name).read_bytes() for name in ("limits", "usage")}
    for _ in range(rounds):
        for name, content in whole.items():
            (a_slice.path / name).write_bytes(content)
        for _ in range(numbers.choice((1, 1, 2, 8, 64))):
            name = numbers.choice(("limits", "usage"))
            end = numbers.choice((32, 128, 5000, len(whole[name])))
            at = numbers.randrange(min(end, len(whole[name])))
            overwrite(a_slice.path / name, at, numbers.randbytes(numbers.choice((1, 4, 8)))[: len(whole[name]) - at])
        done = a_slice.run("churn", 1000, 20)
        assert done.returncode in (0, 1), done
        asked = a_slice.run("hold", LIMIT + 1)
        assert asked.returncode == 0 and asked.stdout in ("2\n", f"{NOT_READY}\n"), asked
        assert run([a_slice.built.slicectl, "show", a_slice.path, "--json"]).returncode in (0, 1)


def test_garbled_files_never_end_a_program(a_slice):
    fuzz(a_slice, 150, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_garbled_files_never_end_a_program_long(a_slice):
    fuzz(a_slice, part_of(2000, 600), 2)
