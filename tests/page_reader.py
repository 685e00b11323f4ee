"""Pages as a browser reads them: well formed, and nothing in them can load or run something."""

import base64
import hashlib
import re
from html.parser import HTMLParser


class Tags(HTMLParser):
    """The tags of a page, and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(attrs)
        if tag not in {"meta", "br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def assert_loads_nothing(page: str) -> None:
    read = Tags(page)
    assert read.open == []
    assert not {*read.tags} & {"script", "img", "link", "iframe", "a", "form", "base"}
    assert not {*read.attributes} & {"src", "href", "style", "action", "ping", "onerror", "onclick"}
    assert not set(page) & set("\x0c\x1b\u202e\ud800")
    policy = re.search(r'Policy" content="([^"]*)"', page)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
