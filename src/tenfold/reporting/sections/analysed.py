"""What `tenfold analyze` and `tenfold explore` found, with their figures inside the page."""

from base64 import b64encode
from pathlib import Path

from tenfold.records import ANALYSIS
from tenfold.reporting.collect import Run
from tenfold.reporting.html import Child, Html, absent, bullets, join, tag
from tenfold.reporting.records import Analysis, Picture

BROAD = 1.7


def analysed(run: Run, command: str | None) -> Html | None:
    """None for a model without factors."""
    if run.analysis is None:
        return None if run.plan is None else absent("Not analysed", command)
    return _shown(run.folder / ANALYSIS, run.analysis)


def looked(run: Run) -> Html | None:
    return None if run.look is None else _shown(run.folder, run.look)


def _shown(folder: Path, found: Analysis) -> Html:
    several = len(found.groups) > 1
    parts: list[Child] = [_figure(folder, each, several) for each in found.figures if _file(folder, each).is_file()]
    if found.notes:
        parts.append(bullets(found.notes))
    return join(parts, "\n")


def site_errors(analysis: Analysis) -> dict[str, float]:
    """By path, the share of a matrix's squared norm that is lost now, over its tiles."""
    lost: dict[str, float] = {}
    total: dict[str, float] = {}
    for tile in (tile for group in analysis.groups for tile in group.tiles):
        if tile.error is not None and tile.raw_norm:
            lost[tile.path] = lost.get(tile.path, 0.0) + tile.error * tile.raw_norm**2
            total[tile.path] = total.get(tile.path, 0.0) + tile.raw_norm**2
    return {path: lost[path] / total[path] for path in lost}


def _file(folder: Path, picture: Picture) -> Path:
    return folder / f"{Path(picture.name).name}.png"


def _figure(folder: Path, picture: Picture, several: bool) -> Html:
    title = f"{picture.title} ({picture.group})" if several and picture.group else picture.title
    return embedded(_file(folder, picture), title)


def embedded(file: Path, title: str) -> Html:
    """A PNG inside the page, as wide as the page where it is much wider than high."""
    data = file.read_bytes()
    width, height = (int.from_bytes(data[at : at + 4]) for at in (16, 20))  # of its first chunk
    picture = tag("img", src=f"data:image/png;base64,{b64encode(data).decode()}", alt=title, width=width, height=height)
    return tag("figure", picture, tag("figcaption", title), class_=f"picture{' broad' * (width > BROAD * height)}")
