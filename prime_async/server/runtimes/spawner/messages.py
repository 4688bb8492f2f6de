"""What the server and the spawner say to each other, and how it travels.

One packet of a SEQPACKET socket is one message: a JSON object, with descriptors beside it. What is
too long for a packet travels in a sealed memory file whose descriptor is the last one. Requests
carry ``id`` and ``op``, answers the ``id`` and either ``ok`` or ``error``, events ``event``. Both
sides give :data:`VERSION` in the first message and part when it differs. An agent on another node
speaks the same set over TLS, without descriptors.

| op | fields | answer |
|---|---|---|
| hello | version, uid, gid, binds | pid, version |
| start | sandbox, argv, cgroups, listen, map (event *mapping* first) | pid, start_time, socket |
| mapped, abort | of (id of the start) | none |
| launch | sandbox, cgroups, life | pid, start_time: a keeper without isolation |
| adopt | sandbox, pid, start_time, cgroups, isolated | alive |
| forget | sandbox | none |
| exec | sandbox, argv, env, cwd, uid, gid, groups, rlimits, pty, survives | pid, host_pid, master |
| signal | host_pid, number, session | sent |
| launcher | sandbox, uid, gid, groups, rlimits, env; its channel | answer |
| holder | sandbox, uid, gid, groups, rlimits, env; the socket it listens on | answer |
| inside | sandbox, pid, number | sent |
| socket | sandbox, kind (listen, connect), port | the socket |
| stats | | commands, keepers, rss |

A launcher serves *exec* (argv, env, cwd; beside it the three streams) and *signal* on a channel of
its own, in the same way. A holder serves whoever calls it on its socket:

| op | fields | answer |
|---|---|---|
| list | | held: host_pid, pid, label, deadline, pty and ended (an *exit* event) of each |
| exec | argv, env, cwd, stdin, pty, label, deadline | pid, host_pid |
| follow | host_pid, stream, at, and a pipe to write the output to | at |
| rest | host_pid, stream, at | none |
| write, finish | host_pid, key, size, and a memory file | ok, when it is written |
| resize, signal | host_pid, size; as above | ok; sent |
| forget | host_pid | none |

Events: *mapping* (id, pid): the server writes the id maps of that process, then says *mapped*;
*exit* (host_pid, code, signal): a command ended.
"""

from __future__ import annotations

import array
import json
import os
import socket
from typing import Any

__all__ = ["VERSION", "Message", "end_event", "failure_answer", "receive", "send"]

VERSION = 3

Message = dict[str, Any]

_PACKET_BYTES = 48 * 1024
"""Below the smallest send buffer a kernel gives by default, headers included."""

_encode = json.JSONEncoder(separators=(",", ":")).encode

_MAX_BODY = 64 * 1024 * 1024
_MAX_DESCRIPTORS = 8


def end_event(pid: int, status: int) -> Message:
    """Say how a process ended: what the system's status of it means."""
    code = os.waitstatus_to_exitcode(status)
    return {
        "event": "exit",
        "host_pid": pid,
        "code": 128 - code if code < 0 else code,
        "signal": -code if code < 0 else None,
    }


def failure_answer(number: int, stage: str, text: str) -> Message:
    """Say that something did not work, and at which step."""
    return {"error": number, "stage": stage, "text": text}


def send(channel: socket.socket, message: Message, descriptors: tuple[int, ...] = ()) -> None:
    """Send one message.

    Raises:
        BlockingIOError: the other side does not read, and the socket does not wait.
        OSError: the other side is gone.
    """
    body = _encode(message).encode()
    if len(body) <= _PACKET_BYTES:
        _send(channel, body, descriptors)
        return
    memory = os.memfd_create("message", os.MFD_CLOEXEC)
    try:
        view = memoryview(body)
        while view:
            view = view[os.write(memory, view) :]
        _send(channel, b'{"body":%d}' % len(body), (*descriptors, memory))
    finally:
        os.close(memory)


def _send(channel: socket.socket, packet: bytes, descriptors: tuple[int, ...]) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    channel.sendmsg([packet], rights if descriptors else [])


def receive(channel: socket.socket) -> tuple[Message, list[int]] | None:
    """Return the next message and its descriptors; None when the other side is gone.

    Raises:
        BlockingIOError: there is none yet, and the socket does not wait.
    """
    space = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
    flags = socket.MSG_CMSG_CLOEXEC
    try:
        packet, control, _, _ = channel.recvmsg(_PACKET_BYTES + 1024, space, flags)
    except ConnectionResetError:
        return None
    descriptors = _descriptors(control)
    if not packet:
        return None
    message: Message = json.loads(packet)
    size = message.get("body")
    if size is None:
        return message, descriptors
    memory = descriptors.pop()
    try:
        return json.loads(_read(memory, min(int(size), _MAX_BODY))), descriptors
    finally:
        os.close(memory)


def _descriptors(control: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)


def _read(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        window = os.pread(descriptor, size - len(data), len(data))
        if not window:
            break
        data += window
    return bytes(data)
