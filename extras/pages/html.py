"""Pages that load nothing and run nothing, in light and dark, also for paper."""

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from xml.etree.ElementTree import Element, tostring

from skills_agent.graph.cli.printing import shown


def element(tag: str, /, *children: str | Element, **attributes: object) -> Element:
    """Return an element, its texts with marks in place of what cannot be seen.

    `class_` stands for `class`, `http_equiv` for `http-equiv`.
    """
    named = {
        key.rstrip("_").replace("_", "-"): shown(str(value), "prose") for key, value in attributes.items()
    }
    made = Element(tag, named)
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + shown(child, "prose")
        else:
            made.text = (made.text or "") + shown(child, "prose")
    return made


def html_page(title: str, *body: Element) -> str:
    """Return a page. Texts of models, skills and repositories are in it as texts, never as markup."""
    style = (files("skills_agent.pages") / "page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Markup that got through all the same would run nothing, load nothing and send nothing.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    styled = Element("style")
    styled.text = style
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        styled,
    )
    whole = element("html", head, element("body", *body), lang="en")
    return f"<!doctype html>\n{tostring(whole, encoding='unicode', method='html')}\n"


def facts(values: Mapping[str, str]) -> Element:
    """Return names with what each has; those that have nothing are left out."""
    pairs = [(element("dt", name), element("dd", value)) for name, value in values.items() if value]
    return element("dl", *(each for pair in pairs for each in pair))
