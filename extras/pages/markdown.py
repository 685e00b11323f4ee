"""Markdown of a model as elements. No link can be followed, no image is loaded, and HTML stays a text."""

from typing import Final
from xml.etree.ElementTree import Element, fromstring

from markdown_it import MarkdownIt

from skills_agent.graph.cli.printing import shown
from skills_agent.pages.html import element
from skills_agent.skills.text import clean_text

_DEEPEST: Final = 20
"""Levels of lists and quotes; the parser leaves out what is deeper."""


def markdown(text: str) -> Element:
    """Return an untrusted text as people read it. All that it says is there: addresses, too."""
    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": True, "maxNesting": _DEEPEST})
    # The definition of a link would be left out, and an entity may stand for what nobody can see.
    parser.disable(["reference", "entity"]).enable(["strikethrough", "table"])
    tokens = parser.parse(shown(text, "prose"))
    if any(token.level >= _DEEPEST - 1 for token in tokens):
        return element("pre", text)
    # Attributes may still have such an entity, of which XML takes not all.
    written = clean_text(parser.renderer.render(tokens, parser.options, {})).text
    made = fromstring(f"<div>{written}</div>")  # noqa: S314 - the renderer wrote it: no entities, no doctype
    for each in made.iter():
        address = " ".join(each.attrib[name] for name in ("href", "src", "title") if name in each.attrib)
        each.text = each.attrib.get("alt", each.text)
        each.attrib = {name: value for name, value in each.attrib.items() if name == "start"}
        if each.tag in {"a", "img"}:
            each.tag = "span"
            each.append(element("span", f" ({address})"))
    made.set("class", "text")
    return made
