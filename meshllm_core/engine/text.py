"""Token bytes -> text that is certain: whole UTF-8, and no beginning of a stop string. Pure."""

import codecs


class TextAssembler:
    """One request's text. Feed bytes, get text that can no longer change."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stopped_by = ""
        """The stop string that was met; nothing is emitted after it."""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Text that became certain. `final` also gives what was held back."""
        if self.stopped_by:
            return ""
        text = self._held + self._decoder.decode(data, final)
        if not self._stops:
            self._held = ""
            return text
        hits = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if hits:
            at, self.stopped_by = min(hits, key=lambda hit: (hit[0], -len(hit[1])))
            self._held = ""
            return text[:at]
        keep = 0 if final else self._uncertain(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def _uncertain(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        longest = min(len(text), max(map(len, self._stops)) - 1)
        for size in range(longest, 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self._stops):
                return size
        return 0
