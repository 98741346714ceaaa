"""HTML built as text: whatever is not Html already is escaped, so nothing that comes out of a file can become markup."""

from collections.abc import Iterable, Sequence
from html import escape as escape


class Html(str):
    """Text that is markup."""

    __slots__ = ()


Child = str | int | float | None
"""None is left out."""

VOID = {"br", "hr", "img", "link", "meta"}


def raw(child: Child) -> Html:
    return child if isinstance(child, Html) else Html("" if child is None else escape(str(child)))


def join(children: Iterable[Child], between: str = "") -> Html:
    return Html(between.join(raw(child) for child in children))


def tag(name: str, *children: Child, **attributes: str | int | float | bool | None) -> Html:
    """`class_` is class, `data_form` is data-form; None and False leave an attribute out, True gives its name alone."""
    given = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Html(f"<{name}{given}>" if name in VOID else f"<{name}{given}>{join(children)}</{name}>")


def _attribute(name: str, value: str | int | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Child]],
    caption: Child = None,
    numbers: Sequence[int] = (),
    attributes: Sequence[dict[str, str]] = (),
    class_: str | None = None,
    tall: bool = False,
) -> Html:
    """The first cell of a row names it. `numbers`: which columns stand to the right; `attributes`: of each row.

    It scrolls within itself where it is wider than the page, and can be focused so that the keyboard scrolls it too.
    """
    rows, kind = [*rows], ["n" if k in numbers else None for k in range(len(columns))]
    heads = join(tag("th", column, class_=kind[k], scope="col") for k, column in enumerate(columns))
    body = [_row(row, kind, more) for row, more in zip(rows, attributes or [{}] * len(rows), strict=True)]
    inner = tag(
        "table",
        None if caption is None else tag("caption", tag("span", caption)),
        tag("thead", tag("tr", heads)),
        tag("tbody", join(body, "\n")),
        class_=class_,
    )
    label = f"Table: {columns[0] if caption is None or isinstance(caption, Html) else caption}"
    return tag("div", inner, class_="scroll tall" if tall else "scroll", tabindex=0, role="region", aria_label=label)


def _row(cells: Sequence[Child], kind: Sequence[str | None], attributes: dict[str, str]) -> Html:
    values = [tag("td", cell, class_=each) for cell, each in zip(cells[1:], kind[1:], strict=True)]
    return tag("tr", tag("th", cells[0], scope="row"), *values, **attributes)


def code(text: Child) -> Html:
    return tag("code", text)


def absent(what: str, command: str | None = None) -> Html:
    """What the folder lacks, and the command that would bring it."""
    return tag("p", f"{what}", *((": run ", code(command), ".") if command else (".",)), class_="absent")


def bullets(items: Iterable[Child], class_: str | None = None) -> Html:
    return tag("ul", join((tag("li", item) for item in items), "\n"), class_=class_)
