"""How far the reading of text is, in words, with an estimate."""

from collections.abc import Callable
from time import monotonic

Say = Callable[[str], None]

_EVERY = 1.0
"""Seconds between two lines."""


class Meter:
    """Says how much was read of `size` bytes (0: nobody knows), or was made of at most `limit` tokens."""

    def __init__(self, say: Say | None, size: int, limit: int | None) -> None:
        self.say = say or (lambda _: None)
        self.size, self.limit = size, limit
        self.began = self.said = monotonic()

    def update(self, read: int, tokens: int) -> None:
        now = monotonic()
        if now - self.said < _EVERY:
            return
        self.said = now
        share = max(read / self.size if self.size else 0, tokens / self.limit if self.limit else 0)
        done = f"tokenising: {tokens / 1e6:.1f} M tokens"
        left = f", {share:.0%}, about {duration((now - self.began) * (1 / share - 1))} left" if share else ""
        self.say(done + left)

    def end(self, tokens: int, rows: int) -> None:
        self.say(f"tokenised {tokens:,} tokens into {rows:,} rows in {duration(monotonic() - self.began)}")


def duration(seconds: float) -> str:
    whole = round(seconds)
    minutes, hours = whole // 60, whole // 3600
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
