"""A server and a client of HTTP/3, by aioquic.

http3.py serve ADDRESS CERTIFICATE KEY   /: the client's address; /N: N bytes
http3.py get ADDRESS NAME PATH           the body, as it comes
"""

import asyncio
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated


class Server(QuicConnectionProtocol):
    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        for it in self.http.handle_event(event) if self.http else []:
            if isinstance(it, HeadersReceived):
                path = dict(it.headers)[b":path"].decode()
                here = self._quic._network_paths[0].addr[0]
                body = bytes(int(path[1:])) if path[1:] else here.encode()
                self.http.send_headers(it.stream_id, [(b":status", b"200")])
                self.http.send_data(it.stream_id, body, end_stream=True)
                self.transmit()


class Client(QuicConnectionProtocol):
    http = None

    async def get(self, name, path):
        self.http = H3Connection(self._quic)
        self.done = asyncio.get_running_loop().create_future()
        stream = self._quic.get_next_available_stream_id()
        words = [("method", "GET"), ("scheme", "https"), ("authority", name), ("path", path)]
        headers = [(f":{key}".encode(), value.encode()) for key, value in words]
        self.http.send_headers(stream, headers, end_stream=True)
        self.transmit()
        await self.done

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated) and not self.done.done():
            self.done.set_exception(ConnectionError(event.reason_phrase))
        for it in self.http.handle_event(event) if self.http else []:
            if isinstance(it, DataReceived):
                sys.stdout.buffer.write(it.data)
                sys.stdout.flush()
                if it.stream_ended and not self.done.done():
                    self.done.set_result(None)


async def run(what, address, *rest):
    if what == "serve":
        configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
        configuration.load_cert_chain(*rest)
        await serve(address, 443, configuration=configuration, create_protocol=Server)
        await asyncio.Event().wait()
    name, path = rest
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, server_name=name)
    configuration.verify_mode = ssl.CERT_NONE
    async with connect(address, 443, configuration=configuration, create_protocol=Client) as client:
        await client.get(name, path)


asyncio.run(run(*sys.argv[1:]))
