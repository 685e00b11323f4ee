"""The answer on a terminal: as Markdown. A pipe gets the plain text."""

from markdown_it import MarkdownIt
from rich.console import Console
from rich.markdown import Markdown

from skills_agent.graph.cli.printing import shown


def print_markdown(text: str) -> None:
    """Print the untrusted Markdown of a model: what it says is all there, and addresses are not behind words.

    HTML is text here: Rich would leave it out.
    """
    markdown = Markdown("", hyperlinks=False)
    plain = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    markdown.parsed = plain.parse(shown(text, "prose"))
    Console(highlight=False).print(markdown)
