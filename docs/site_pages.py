"""What the site has beside docs/*.md: the README as its first page, and reference made from the code.

MkDocs calls the two functions whose names begin with `on_` while it builds (`make docs-site`).
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from generate import commands_of, files
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from skills_agent.graph.cli.main import cli

ROOT: Final = Path(__file__).resolve().parent.parent
_HOME: Final = "index.md"
_MERMAID: Final = re.compile(r"## The graph\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
"""A site that draws this picture would have to load a program from another host."""
_LINK: Final = re.compile(r"(!?\[([^\]]+)\])\(([^)\s#:]+)(#[\w-]+)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as the first page, the help of every command, and the map of the code."""
    texts = {
        _HOME: _MERMAID.sub("", (ROOT / "README.md").read_text(encoding="utf-8")),
        "reference/commands.md": "\n".join(_help()),
        "reference/files.md": "\n".join(_map()),
    }
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Lead every link to a page of the site; of a link to the code only its words stay."""
    folder = posixpath.dirname(page.file.src_uri)
    start = "" if page.file.src_uri == _HOME else posixpath.join("docs", folder)

    def led(link: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(start, link[3]))
        place = f"docs/{_HOME}" if place == "README.md" else place
        if not place.startswith("docs/"):
            return link[2]
        return f"{link[1]}({posixpath.relpath(place, posixpath.join('docs', folder))}{link[4] or ''})"

    return _LINK.sub(led, markdown)


def _help() -> Iterator[str]:
    yield "# Every command\n\nWhat `skills-agent COMMAND --help` prints.\n"
    for path, command in commands_of(cli):
        context = click.Context(command, info_name=f"skills-agent {path}", max_content_width=90)
        yield f"## {path}\n\n```text\n{command.get_help(context)}\n```\n"


def _map() -> Iterator[str]:
    yield "# Every file\n\nWhat each file says of itself, folder by folder.\n"
    for folder, about, told in files():
        yield f"- **{folder}/** {about}: {'; '.join(told)}"
