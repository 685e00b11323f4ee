"""Elements of HTML. A text becomes markup in one way only: escaped, and with nothing hidden in it."""

import html
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from skills_agent.skills.visible import visible

VOID: Final = frozenset({"br", "input", "meta"})
"""Without an end tag."""


class Html(str):
    """Markup; a plain text is none."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Html | str] | None"


def text(value: object) -> Html:
    """Return a text as markup: escaped, with marks in place of what cannot be seen."""
    if isinstance(value, Html):
        return value
    return Html(_escaped(value, quote=False))


def element(tag: str, /, *children: Child, **attributes: object) -> Html:
    """Return an element. An attribute that is None or False is left out, one that is True has no value.

    `class_` and `for_` stand for `class` and `for`, `data_name` for `data-name`.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Html:
    """Return children one after the other; None is none."""
    parts: Iterator[Html | str | int | float | None] = (
        part
        for each in children
        for part in ([each] if each is None or isinstance(each, str | int | float) else each)
    )
    return Html("".join(text(part) for part in parts if part is not None))


def copied(command: str) -> Html:
    """Return a command; the script of the page puts a button beside it, which copies it."""
    return element("span", element("code", command), class_="command")


def table(header: list[str], rows: list[list[Child]], caption: str = "", class_: str = "") -> Html:
    """Return a table; the first cell of a row is its heading."""
    head = element("tr", [element("th", each, scope="col") for each in header])
    body = [
        element(
            "tr",
            element("th", row[0], scope="row") if row else None,
            [element("td", each) for each in row[1:]],
        )
        for row in rows
    ]
    return element(
        "table",
        element("caption", caption) if caption else None,
        element("thead", head),
        element("tbody", body),
        class_=class_ or None,
    )


def _escaped(value: object, *, quote: bool) -> str:
    return html.escape(visible(str(value).replace("\r\n", "\n"), "prose"), quote=quote)


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{_escaped(value, quote=True)}"'
