"""Damaged bytes of HTTP/1.1, HTTP/2 and websockets: what a connection sends, piece by piece."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Sequence
from urllib.parse import quote

from hpack import Encoder

Pieces = list[bytes]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _PRIORITY, _RST, _SETTINGS, _PUSH, _PING, _GOAWAY, _WINDOW, _CONTINUATION = range(10)
_END_STREAM, _END_HEADERS, _PADDED, _PRIORITISED = 1, 4, 8, 32

_TARGETS = (
    "/ksql",
    "/query",
    "/query-stream",
    "/inserts-stream",
    "/close-query",
    "/info",
    "/ui",
    "/metrics",
    "/ws/query",
)
_BODIES = (
    b'{"ksql": "SHOW STREAMS;"}',
    b'{"sql": "SELECT * FROM s EMIT CHANGES;", "properties": {"auto.offset.reset": "earliest"}}',
    b'{"sql": "SELECT * FROM s EMIT CHANGES LIMIT 0;"}',
    b'{"target": "S"}\n{"ID": 1}\n{"ID": "x"}\n{"ID": 2}\n',
    b'{"target": "NOTHING"}\n' + b'{"ID": 1}\n' * 30,
    b'{"queryId": "transient_1"}',
    b"",
    b"\xff" * 40,
)
_HEADS = (
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 5, 6",
    b"Content-Type: \xff\xfe",
    b"Accept: application/vnd.ksqlapi.delimited.v1",
    b"Accept: */*;q=2, ,;;",
    b"Authorization: Basic =",
    b"Authorization: Bearer a.b.c",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
    b"Connection: close",
    b"Expect: 100-continue",
    b"Host: [",
    b"Host: a\r\nHost: b",
    b"Origin: http://[",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"X: " + b"y" * 70_000,
    b" folded: value",
    b"no colon",
)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Data with a few bytes changed, inserted, left out or cut off."""
    mutated = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 10))):
        at = rng.randrange(len(mutated) + 1)
        mutated[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
    return bytes(mutated[: rng.randrange(len(mutated) + 1)] if rng.random() < 0.2 else mutated)


def pieces(data: bytes, rng: random.Random) -> Pieces:
    """Data cut into up to three parts."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(3)))
    return [data[first:end] for first, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if first < end]


def http1(rng: random.Random) -> Pieces:
    """One to three requests of HTTP/1.1, with bodies in one piece and in chunks."""
    sent = b""
    for _ in range(rng.choice((1, 1, 2, 3))):
        body = rng.choice(_BODIES)
        method = rng.choice((b"POST", b"POST", b"GET", b"HEAD", b"PUT", b"OPTIONS", b"CONNECT", b"post", b"\x00"))
        lines = [
            b"%s %s HTTP/1.1" % (method, rng.choice(_TARGETS).encode() + rng.choice((b"", b"", b"/..", b"?%", b"%2f"))),
            b"Host: localhost",
            *rng.sample(_HEADS, rng.choice((0, 0, 1, 2))),
        ]
        if rng.random() < 0.5:
            lines.append(b"Transfer-Encoding: chunked")
            size = rng.choice((b"%x" % len(body), b"%x;ext=1" % len(body), b"ffffffffffffffffff", b"-1", b"zz"))
            body = size + b"\r\n" + body + b"\r\n" + rng.choice((b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b""))
        else:
            lines.append(b"Content-Length: %d" % (len(body) + rng.choice((0, 0, 0, 1, -1))))
        sent += rng.choice((b"\r\n", b"\r\n", b"\r\n", b"\n")).join([*lines, b"", body])
    return pieces(damaged(sent, rng) if rng.random() < 0.5 else sent, rng)


def frame(kind: int, flags: int, stream: int, payload: bytes, length: int | None = None) -> bytes:
    """One frame of HTTP/2."""
    size = len(payload) if length is None else length
    return (
        struct.pack(">I", size & 0xFFFFFF)[1:] + bytes((kind, flags)) + struct.pack(">I", stream & 0xFFFFFFFF) + payload
    )


def http2(rng: random.Random) -> Pieces:
    """A connection of HTTP/2 whose frames make less and less sense."""
    encoder, sent, stream = Encoder(), [_PREFACE + frame(_SETTINGS, 0, 0, b"")], 1
    for _ in range(rng.randrange(1, 12)):
        step = rng.choice(_STEPS)
        sent.append(step(rng, stream, encoder))
        stream += rng.choice((0, 0, 2, 2, 1))
    if rng.random() < 0.5:
        at = rng.randrange(len(sent))
        sent[at] = damaged(sent[at], rng)
    return sent


def _request(rng: random.Random, stream: int, encoder: Encoder) -> bytes:
    fields = [
        (":method", rng.choice(("POST", "POST", "GET", "CONNECT", ""))),
        (":scheme", "http"),
        (":authority", rng.choice(("localhost", "localhost", "[", ""))),
        (":path", rng.choice((*_TARGETS, "", "*", "/\x00"))),
    ]
    more = [
        ("accept", "*/*;q=x"),
        ("Content-Length", "3"),
        ("content-length", "-1"),
        ("connection", "close"),
        ("te", "x"),
    ]
    more += [("", ""), (":path", "/ksql"), ("x", "y" * 70_000), (":protocol", "websocket"), ("cookie", "\udcff")]
    fields += rng.sample(more, rng.choice((0, 0, 1, 2)))
    rng.random() < 0.1 and rng.shuffle(fields)
    encoded = [(name.encode(), value.encode(errors="surrogateescape")) for name, value in fields]
    # Huffman codes of long values take long to make.
    block = encoder.encode(encoded, huffman=False)
    body = rng.choice(_BODIES)
    flags = rng.choice((_END_HEADERS, _END_HEADERS, _END_HEADERS | _END_STREAM, 0))
    parts = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
    head = frame(_HEADERS, flags & ~_END_HEADERS if len(parts) > 1 else flags, stream, parts[0])
    head += b"".join(frame(_CONTINUATION, 0, stream, part) for part in parts[1:-1])
    head += b"".join(frame(_CONTINUATION, _END_HEADERS, stream, part) for part in parts[1:][-1:])
    return head + frame(_DATA, rng.choice((0, _END_STREAM, _END_STREAM)), stream, body)


def _odd_frame(rng: random.Random, stream: int, _: Encoder) -> bytes:
    payload = rng.randbytes(rng.choice((0, 1, 4, 5, 8, 9, 100)))
    length = rng.choice((None, None, None, 0, len(payload) + 1, 1 << 20))
    return frame(rng.randrange(12), rng.randrange(256), rng.choice((0, stream, 2, 99, 1 << 31)), payload, length)


def _data(rng: random.Random, stream: int, _: Encoder) -> bytes:
    return frame(_DATA, rng.choice((0, _END_STREAM, _PADDED)), stream, rng.choice(_BODIES) * rng.choice((1, 20)))


def _window(rng: random.Random, stream: int, _: Encoder) -> bytes:
    return frame(_WINDOW, 0, rng.choice((0, stream)), struct.pack(">I", rng.choice((0, 1, 0x7FFFFFFF))))


def _settings(rng: random.Random, stream: int, _: Encoder) -> bytes:
    setting = rng.choice(((1, 0), (2, 7), (3, 0), (4, 0), (4, 0xFFFFFFFF), (5, 1), (6, 1), (77, 1)))
    return frame(_SETTINGS, rng.choice((0, 0, 1)), rng.choice((0, 0, stream)), struct.pack(">HI", *setting))


def _ends(rng: random.Random, stream: int, _: Encoder) -> bytes:
    code = struct.pack(">I", rng.choice((0, 8, 999)))
    return rng.choice((frame(_RST, 0, stream, code), frame(_GOAWAY, 0, 0, struct.pack(">I", stream) + code)))


def _flood(rng: random.Random, stream: int, encoder: Encoder) -> bytes:
    requests = [_request(rng, stream + 2 * number, encoder) for number in range(30)]
    resets = [frame(_RST, 0, stream + 2 * number, struct.pack(">I", 8)) for number in range(30)]
    return b"".join(part for pair in zip(requests, resets, strict=True) for part in pair)


_STEPS: Sequence[Callable[[random.Random, int, Encoder], bytes]] = (
    *(_request,) * 4, _odd_frame, _odd_frame, _data, _window, _settings, _ends, _flood,
)  # fmt: skip


def websocket(rng: random.Random) -> Pieces:
    """A websocket: a handshake, whole or damaged, and frames that a client may not send."""
    body = {
        "ksql": rng.choice(("SELECT * FROM s EMIT CHANGES;", "PRINT s;", "SHOW STREAMS;", "", "SELECT 1;", "\u0000"))
    }
    query = rng.choice(
        (quote(json.dumps(body)), "", "%ff", "{", "[]", quote(json.dumps({**body, "streamsProperties": 1})))
    )
    head = (
        f"GET /ws/query?request={query}{rng.choice(('', '&version=9', '&version=1', '&access_token=x'))} HTTP/1.1\r\n"
        "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: {rng.choice(('13', '13', '13', '8', ''))}\r\n"
        f"Sec-WebSocket-Key: {rng.choice(('dGhlIHNhbXBsZSBub25jZQ==', '', 'x'))}\r\n"
        f"{rng.choice(('', 'Sec-WebSocket-Extensions: permessage-deflate; x=' + chr(34) + chr(13) + chr(10), ''))}\r\n"
    ).encode()
    sent = [damaged(head, rng) if rng.random() < 0.3 else head]
    for _ in range(rng.randrange(5)):
        payload = rng.randbytes(rng.choice((0, 1, 2, 125)))
        first = rng.choice((0x81, 0x82, 0x88, 0x89, 0x8A, 0x01, 0x80, 0xF1, rng.randrange(256)))
        size = rng.choice(
            (bytes((0x80 | len(payload),)), bytes((len(payload),)), b"\xfe\xff\xff", b"\xff" + b"\x7f" * 8)
        )
        sent.append(bytes((first,)) + size + rng.randbytes(4) + payload)
    return sent


KINDS: Sequence[Callable[[random.Random], Pieces]] = (http1, http2, websocket)
