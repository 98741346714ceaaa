"""Plain text in."""

from tenfold.text.reading import passages

__all__ = ["passages"]
