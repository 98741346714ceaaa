"""HTML and Markdown built as text: what comes out of files is never markup."""

import re
from html.parser import HTMLParser

from tenfold.reporting import html, markdown

EVIL = '</script><img src=x onerror="alert(1)">|`*_[a](b)\n'


class Names(HTMLParser):
    """The elements of a text, and its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.attributes += attrs


def test_text_and_attributes_are_escaped() -> None:
    made = Names(html.tag("p", EVIL, title=EVIL, data_form="a"))
    assert made.found == ["p"]
    assert made.attributes == [("title", EVIL), ("data-form", "a")]


def test_markup_stays_and_nothing_is_left_out_silently() -> None:
    inner = html.tag("b", 0)
    assert html.tag("p", inner, None, "x") == "<p><b>0</b>x</p>"
    assert html.tag("br") == "<br>"
    assert html.tag("div", hidden=True, id=None, class_="a", tabindex=0) == '<div hidden class="a" tabindex="0"></div>'
    assert html.join(["<", inner]) == "&lt;<b>0</b>"


def test_a_table_escapes_its_cells_and_names_its_rows() -> None:
    made = Names(html.table(["a", EVIL], [["row", EVIL]], caption=EVIL, numbers=[1], attributes=[{"data_form": EVIL}]))
    assert made.found == ["div", "table", "caption", "span", "thead", "tr", "th", "th", "tbody", "tr", "th", "td"]
    assert ("data-form", EVIL) in made.attributes
    assert ("scope", "row") in made.attributes


def test_what_is_absent_names_the_command() -> None:
    assert html.absent("No scores", "tenfold evaluate a<b") == (
        '<p class="absent">No scores: run <code>tenfold evaluate a&lt;b</code>.</p>'
    )
    assert html.absent("No chart") == '<p class="absent">No chart.</p>'


def test_markdown_is_escaped() -> None:
    line = markdown.text(EVIL)
    assert "\n" not in line
    assert "<" not in line
    assert not re.search(r"(?<!\\)[|`*_\[\]]", line)
    rows = markdown.table(["a", "b"], [["x", EVIL], [None, "1"]], numbers=[1]).splitlines()
    assert rows[:2] == ["| a | b |", "| --- | ---: |"]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [3, 3, 3, 3]
    assert rows[3] == "|  | 1 |"


def test_a_fence_is_longer_than_what_is_inside() -> None:
    assert markdown.fence("a", "bash") == "```bash\na\n```"
    assert markdown.fence("x ```` y").startswith("`````\n")
