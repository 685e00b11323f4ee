"""A whole page: one file that loads nothing, in light and dark, for the screen, the keyboard and paper."""

from functools import cache
from importlib.resources import files

from skills_agent.graph.pages.elements import Html, element, joined

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""What the browser lets the page do: nothing of it comes from elsewhere, and it sends nothing."""


def page(title: str, *body: Html) -> str:
    """Return the page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        Html(f"<style>{_part('page.css')}</style>"),
    )
    toggle = element("button", "Dark or light", type="button", id="theme", class_="plain")
    content = element("main", element("div", toggle, class_="tools"), *body)
    script = Html(f"<script>{_part('page.js')}</script>")
    whole = element("html", head, element("body", content, script), lang="en")
    return joined(Html("<!doctype html>\n"), whole, Html("\n"))


@cache
def _part(name: str) -> str:
    return (files("skills_agent.graph.pages") / name).read_text("utf-8")
