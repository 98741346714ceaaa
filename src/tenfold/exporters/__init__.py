"""Compressed folders as files for other programs."""
