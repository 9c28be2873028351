"""What a job serves, as a person meets it in Chromium: its TensorBoard, and large, partial and live data on a port."""

import uuid

import pytest
from playwright.sync_api import expect

from bench.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
BOARD_MS, LOSS = 60_000, 0.625

WRITES = f"""
import time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

writer = EventFileWriter("runs")
for step in range(5):
    summary = Summary(value=[Summary.Value(tag="loss", simple_value={LOSS})])
    writer.add_event(Event(step=step, wall_time=time.time(), summary=summary))
writer.close()
print("written", flush=True)
time.sleep(600)
"""

SERVES = """
import asyncio, sys
from tornado import web

go = asyncio.Event()

class Page(web.RequestHandler):
    def get(self):
        self.write("<title>mine</title>")

class Stream(web.RequestHandler):
    async def get(self):
        self.set_header("Content-Type", "text/event-stream")
        for word in ("first", "second"):
            self.write(f"data: {word}\\n\\n")
            await self.flush()
            await go.wait()

class Go(web.RequestHandler):
    def get(self):
        go.set()

@web.stream_request_body
class Up(web.RequestHandler):
    def prepare(self):
        self.request.connection.set_max_body_size(1 << 40)
        self.total = 0

    def data_received(self, chunk):
        self.total += len(chunk)

    def post(self):
        self.write(str(self.total))

async def main():
    open("letters", "w").write("abcdefghijklmnopqrstuvwxyz")
    files = ("/files/(.*)", web.StaticFileHandler, {"path": "."})
    application = web.Application([("/", Page), ("/stream", Stream), ("/go", Go), ("/up", Up), files])
    application.listen(int(sys.argv[1]), "127.0.0.1")
    print("listening", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

RANGE = """async () => {
    const part = await fetch("/files/letters", {headers: {Range: "bytes=2-4"}})
    return [part.status, part.headers.get("Content-Range"), await part.text()] }"""
UPLOAD = """async mib => {
    const piece = new Uint8Array(1024 * 1024)
    const sent = await fetch("/up", {method: "POST", body: new Blob(Array(mib).fill(piece))})
    return [sent.status, await sent.text()] }"""
STREAM = """() => new Promise(done => {
    const heard = [], stream = new EventSource("/stream")
    stream.onmessage = event => {
        heard.push(event.data)
        if (heard.length === 1) fetch("/go")  // what comes second waits until the first was seen
        else { stream.close(); done(heard) } } })"""


@pytest.fixture(scope="module")
def stack(stack_with_notebooks):
    return stack_with_notebooks


@pytest.fixture(scope="module")
def browser(chromium, stack):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(stack.login_link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{stack.url}/")
    yield page
    context.close()


def test_tensorboard_shows_a_scalar_that_a_job_wrote(stack, browser):
    job = submit(stack, WRITES, "written", tensorboard="runs")
    board = open_link(stack, browser, job, "TensorBoard")
    card = board.locator("scalar-card", has_text="loss").first
    card.wait_for(timeout=BOARD_MS)
    card.locator("line-chart .series-view, line-chart canvas, line-chart svg").first.hover()
    expect(board.locator(".tooltip")).to_contain_text(str(LOSS))


def test_a_port_takes_large_files_and_answers_in_parts_and_live(stack, browser):
    page = open_link(stack, browser, submit(stack, SERVES, "listening", ports=[17861]), "Port 17861")
    expect(page).to_have_title("mine")
    assert page.evaluate(RANGE) == [206, "bytes 2-4/26", "cde"]
    assert page.evaluate(UPLOAD, 256) == [200, str(256 * 1024 * 1024)]
    assert page.evaluate(STREAM) == ["first", "second"]


def submit(stack: Stack, program: str, says: str, **spec) -> str:
    """A job that runs this Python program in the environment of notebooks, when it has said that it is so far."""
    argument = '"$TESSERA_PORT_17861"' if "ports" in spec else ""
    run = f"cat >program.py <<'END'\n{program}END\nexec \"$TESSERA_TOOLS/bin/python\" program.py {argument}\n"
    named = {"name": f"t {uuid.uuid4().hex[:6]}", "gpu": "1/4", "tensorboard": ".", **spec}
    job = stack.api("POST", "/jobs", {"run": run, **named})["id"]
    stack.wait_for(job, "running")
    stack.wait_for_line(job, says)
    return job


def open_link(stack: Stack, browser, job: str, name: str):
    """The tab that a link on the job's page opens."""
    browser.goto(f"{stack.url}/j/{job}/")
    with browser.context.expect_page() as opened:
        browser.get_by_role("link", name=name).first.click()
    return opened.value
