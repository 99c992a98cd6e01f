"""A link between a client and a node, that can be slow, and counts what crosses it."""

import asyncio
import threading
from typing import Self

PIECE = 4096


class Link:
    """Listens on a port of its own, and carries everything to a node's, at so many bytes/s."""

    def __init__(self, port: int) -> None:
        self.rate = 0.0
        """Bytes a second in either direction; 0 for as fast as it goes."""
        self.crossed = 0
        self.port = 0
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connected, "127.0.0.1", 0)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(self._carry(reader, back), self._carry(there, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(PIECE):
                self.crossed += len(piece)
                if self.rate:
                    await asyncio.sleep(len(piece) / self.rate)
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        writer.close()
