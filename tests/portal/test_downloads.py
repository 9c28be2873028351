"""Files on their way out: as they were when they were opened, and never more of them in memory than a piece."""

import asyncio
import os
import tracemalloc

import pytest
from django.test import RequestFactory

from common.errors import RangeOutside
from portal.downloads import PIECE, Packing, send_archive, send_file
from runtimes.storage.areas import AreaId, get_area_path
from runtimes.storage.file_store import FileStore

MIB = 2**20


@pytest.fixture
def store(tmp_path):
    return FileStore(tmp_path, AreaId("home", os.getuid()), uid=os.getuid() or 20_001, gid=os.getgid() or 20_001)


@pytest.fixture
def home(store, tmp_path):
    store.list_folder()
    return get_area_path(tmp_path, store.place)


def send(store, path="a", **headers):
    return send_file(RequestFactory().get("/", headers=headers), store, path)


async def all_of(response):
    data = b"".join([piece async for piece in response.streaming_content])
    response.close()
    return data


def write(home, data, name="a"):
    (home / name).write_bytes(data)
    (home / name).chmod(0o666)


async def peak_of(response):
    """(bytes that came, the most that was in memory meanwhile)"""
    tracemalloc.start()
    try:
        count = 0
        async for piece in response.streaming_content:
            count += len(piece)
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        response.close()


@pytest.mark.parametrize("sender", [send, lambda store: send_archive(store, "", "ada")], ids=["file", "archive"])
async def test_a_large_file_or_folder_takes_no_more_memory_than_a_few_pieces(store, home, sender):
    write(home, b"")
    os.truncate(home / "a", 256 * MIB)
    count, peak = await peak_of(sender(store))
    assert count >= 256 * MIB and peak < 8 * PIECE


async def test_who_stops_taking_an_archive_leaves_no_descriptor(store, home):
    write(home, bytes(8 * MIB))
    before = sorted(os.listdir("/proc/self/fd"))
    response = send_archive(store, "", "ada")
    assert await anext(aiter(response.streaming_content))
    response.close()
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_an_archive_that_breaks_off_is_no_whole_answer(store, home):
    write(home, bytes(8 * MIB))
    archive = store.open_archive("", "ada")
    archive._child.kill()
    with pytest.raises(OSError, match="broke off"):
        async for _piece in Packing(archive):
            pass
    archive.close()


async def test_a_file_that_grows_meanwhile_ends_where_it_ended(store, home):
    write(home, b"x" * 1000)
    response = send(store)
    write(home, b"y" * 5000)
    assert response["Content-Length"] == "1000" and len(await all_of(response)) == 1000


async def test_a_file_that_shrinks_meanwhile_comes_short_of_what_was_promised(store, home):
    """The length is not kept, so whoever reads knows; zeros would be taken for content."""
    write(home, b"x" * (2 * PIECE))
    response = send(store)
    pieces = aiter(response.streaming_content)
    assert len(await anext(pieces)) == PIECE
    os.truncate(home / "a", PIECE + 10)
    assert [len(piece) async for piece in pieces] == [10] and response["Content-Length"] == str(2 * PIECE)
    response.close()


async def test_a_file_that_is_replaced_meanwhile_is_still_the_one_that_was_opened(store, home):
    write(home, b"old" * PIECE)
    response = send(store)
    write(home, b"new", "b")
    os.rename(home / "b", home / "a")
    assert await all_of(response) == b"old" * PIECE
    assert response["ETag"] != send(store)["ETag"]


async def test_a_range_of_what_changed_since_is_the_whole(store, home):
    write(home, b"x" * 100)
    tag = send(store)["ETag"]
    write(home, b"y" * 200)
    response = send(store, Range="bytes=50-", If_Range=tag)
    assert response.status_code == 200 and await all_of(response) == b"y" * 200


def test_a_range_outside_leaves_no_descriptor(store, home):
    write(home, b"x")
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(RangeOutside):
            send(store, Range="bytes=5-")
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_many_take_their_files_at_once(store, home):
    write(home, os.urandom(MIB))
    responses = [send(store) for _ in range(8)]
    assert await asyncio.gather(*(all_of(response) for response in responses)) == [(home / "a").read_bytes()] * 8
