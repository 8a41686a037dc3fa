"""Server-sent events out of bytes that were cut anywhere: no more of the format than answers of models use."""

from __future__ import annotations

from agentx.errors import StreamBroken

# An event longer than this is no piece of an answer: a megabyte holds more than any model writes in one go.
MOST_BYTES = 8_000_000

_BOM = b"\xef\xbb\xbf"


class EventDecoder:
    """Feed it bytes as they come; it gives the data of every event that has become whole.

    Fields other than ``data`` and comments are passed over. An event that is not closed by an empty line is none.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._began = False

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that end in ``received``. Raises ``StreamBroken`` when one has no end."""
        text = self._rest + received
        if not self._began:
            if len(text) < len(_BOM) and _BOM.startswith(text):
                self._rest = text
                return []
            text = text.removeprefix(_BOM)
            self._began = True
        lines = self._split(text)
        events: list[bytes] = []
        for line in lines:
            if line.startswith(b"data"):
                self._take(line)
            elif not line and self._data:
                events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data, self._size = [], 0
        if self._size + len(self._rest) > MOST_BYTES:
            raise StreamBroken("The model server sent an event without an end")
        return events

    def _split(self, text: bytes) -> list[bytes]:
        """The whole lines of ``text``; what follows the last of them is kept. Lines may end in LF, CR LF or CR."""
        if b"\r" in text:
            # A CR at the end may be half of a CR LF, of which the other half is still to come.
            held = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        *lines, self._rest = text.split(b"\n")
        return lines

    def _take(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if name != b"data":
            return
        value = value[1:] if colon and value.startswith(b" ") else value
        self._data.append(value)
        self._size += len(value)
