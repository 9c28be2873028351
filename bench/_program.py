"""What bench/gateway.py runs as a job: a program that echoes, and sends and takes as many bytes as it is asked.

Runs from the environment of notebooks, so that it is the server that JupyterLab is (Tornado).
"""

import asyncio
import sys

from tornado import web, websocket

MIB = 1024 * 1024
LARGEST_BODY = 1024**4


class Echo(websocket.WebSocketHandler):
    def check_origin(self, origin):
        return True

    def on_message(self, message):
        self.write_message(message)


class Down(web.RequestHandler):
    async def get(self):
        piece = bytes(MIB)
        for _ in range(int(self.get_query_argument("mib"))):
            self.write(piece)
            await self.flush()


@web.stream_request_body
class Up(web.RequestHandler):
    def prepare(self):
        self.request.connection.set_max_body_size(LARGEST_BODY)
        self.total = 0

    def data_received(self, chunk):
        self.total += len(chunk)

    def post(self):
        self.write(str(self.total))


async def main():
    application = web.Application([("/ws", Echo), ("/down", Down), ("/up", Up)])
    application.listen(int(sys.argv[1]), "127.0.0.1", max_buffer_size=64 * MIB)
    print("listening", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
