"""What a notebook's widgets say while a cell runs: the kernel itself listens again only when the cell has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any


class Messages:
    """`poll()` hands the messages that came for the comms named over to their widgets; all others wait as they would.

    Some front ends send what widgets say to a thread of the kernel's own (a subshell, ipykernel 7): then there is
    nothing to do here, and callbacks run in that thread. Elsewhere messages lie in the main thread's socket until the
    cell ends: that of the shell channel (ipykernel 6), or one that is fed from it (7). They are taken from there by the
    stream's own `flush`, so that it notices later messages as before.
    """

    def __init__(self, comms: Collection[str]) -> None:
        from IPython.core.getipython import get_ipython

        self.comms = set(comms)
        self.kernel: Any = getattr(get_ipython(), "kernel", None)
        here = threading.current_thread() is threading.main_thread()
        self.stream = _stream(self.kernel) if here and self.kernel is not None else None

    def poll(self) -> None:
        """Takes what has come. A look costs microseconds."""
        import zmq

        stream = self.stream
        if stream is None or stream.closed() or not stream.socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            return
        before, copied = stream._recv_callback, stream._recv_copy
        stream.on_recv(lambda frames: self._sorted(frames, before), copy=False)
        try:
            stream.flush(zmq.POLLIN)
        finally:
            stream.on_recv(before, copy=copied)

    def _sorted(self, frames: list[Any], later: Callable[[list[Any]], Any]) -> Any:
        """One message: to its widget, or to where it would have gone."""
        session = self.kernel.session
        idents, parts = session.feed_identities(frames, copy=False)
        message = session.deserialize(parts, content=False, copy=False)
        if message["header"]["msg_type"] == "comm_msg":
            content = session.unpack(message["content"])
            if content.get("comm_id") in self.comms:
                self.kernel.comm_manager.comm_msg(self.stream, idents, {**message, "content": content})
                return None
        return later(frames)


def _stream(kernel: Any) -> Any:
    """The stream on which the main thread hears of the shell channel; None where this kernel has another shape."""
    if thread := getattr(kernel, "shell_channel_thread", None):
        return thread.manager.get_shell_channel_to_subshell_pair(None).to_stream
    return getattr(kernel, "shell_stream", None)
