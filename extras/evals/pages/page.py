"""A whole page: one file that loads nothing, in light and dark, for the screen, the keyboard and paper."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from skills_agent.evals.pages.elements import Html, element, joined


def page(title: str, *body: Html) -> str:
    """Return the page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        Html(f"<style>{_part('page.css')}</style>"),
    )
    toggle = element("button", "Dark or light", type="button", id="theme", class_="plain")
    content = element("main", element("div", toggle, class_="tools scripted"), *body)
    script = Html(f"<script>{_part('page.js')}</script>")
    whole = element("html", head, element("body", content, script), lang="en")
    return joined(Html("<!doctype html>\n"), whole, Html("\n"))


@cache
def _part(name: str) -> str:
    return (files("skills_agent.evals.pages") / name).read_text("utf-8")


@cache
def _policy() -> str:
    """Return what the browser lets the page do: our style and our script, by their digests, and nothing else.

    Markup that got through all the same would run nothing, load nothing and send nothing.
    """
    style, script = (
        base64.b64encode(hashlib.sha256(_part(name).encode()).digest()).decode()
        for name in ("page.css", "page.js")
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )
