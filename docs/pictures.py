"""Draw the pictures of the README from real runs with the offline model: `make pictures`.

    python docs/pictures.py [FOLDER]    write session.svg and graph.svg, by default into docs/pictures/

session.svg is a terminal in which a question is asked and its script approved, graph.svg is the graph with
the path of such a turn.
"""

import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from collections.abc import Iterator
from html import escape
from io import StringIO
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

import pyte
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from rich.console import Console
from rich.style import Style
from rich.text import Text

from skills_agent.graph import Settings, build_graph
from skills_agent.graph.threads.compiled import CompiledAgent

QUESTION: Final = "What is the total amount in orders.csv?"
ORDERS: Final = "region,amount\nnorth,3\nsouth,4\n"
_COLUMNS, _LINES = 92, 60
_FONTS: Final = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->", re.DOTALL)
"""rich's pictures load a font from another host: any font of fixed width does."""
_ROWS: Final = ("summarize select load", "discover decide answer", "gate approve act", "- - fork")
_PLACES: Final = {
    name: (84 + 168 * column, 50 + 120 * row)
    for row, names in enumerate(_ROWS)
    for column, name in enumerate(names.split())
    if name != "-"
}
"""The middle of each node."""
_BEND: Final = 0.2
"""How far an edge bows out, of its length: there and back are two lines."""
_STYLE: Final = """
text { font: 14px sans-serif; fill: #1f2937; text-anchor: middle }
.told { text-anchor: start }
rect.node { fill: #f3f4f6; stroke: #9ca3af }
rect.ran { fill: #fde68a; stroke: #b45309; stroke-width: 2 }
path { fill: none; stroke: #d1d5db; stroke-width: 1.5 }
path.taken { stroke: #b45309; stroke-width: 2.5 }
circle { fill: #b45309 }
.number { fill: #ffffff; font-size: 12px; font-weight: bold }
"""


def main(folder: Path) -> None:
    """Write both pictures into a folder."""
    with tempfile.TemporaryDirectory() as base:
        workspace = Path(base, "work")
        workspace.mkdir()
        (workspace / "orders.csv").write_text(ORDERS, encoding="utf-8")
        (folder / "session.svg").write_text(_session(workspace, Path(base, "home")), encoding="utf-8")
        (folder / "graph.svg").write_text(_graph(workspace, Path(base, "home")), encoding="utf-8")


def _session(workspace: Path, home: Path) -> str:
    """Return a picture of a terminal in which the question is asked, and the script approved."""
    console = Console(record=True, width=_COLUMNS, file=StringIO())
    console.print(Text.assemble(("$ ", "green"), f'skills-agent ask "{QUESTION}"'))
    for line in _typed(workspace, home):
        console.print(line)
    return _FONTS.sub("", console.export_svg(title="skills-agent", unique_id="session"))


def _typed(workspace: Path, home: Path) -> Iterator[Text]:
    """Yield the lines of a terminal on which `a` is typed at the question."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(workspace)
        private = ("OPENAI", "SKILLS_AGENT", "XDG", "ANTHROPIC")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(private)}
        environment = {**kept, "HOME": str(home), "TERM": "xterm-256color"}
        os.execvpe("skills-agent", ["skills-agent", "ask", QUESTION, "--model", "offline"], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    screen = pyte.Screen(_COLUMNS, _LINES)
    stream = pyte.ByteStream(screen)
    is_asked = False
    while printed := _read(terminal):
        stream.feed(printed)
        if not is_asked and any("[a]pprove" in line for line in screen.display):
            is_asked = True
            os.write(terminal, b"a\n")
    os.waitpid(child, 0)
    last = max(number for number, line in enumerate(screen.display) if line.strip())
    for number in range(last + 1):
        cells = [_drawn(screen.buffer[number][column]) for column in range(_COLUMNS)]
        runs = groupby(cells, key=lambda cell: cell[1])
        yield Text.assemble(*(("".join(data for data, _ in run), style) for style, run in runs))


def _read(terminal: int) -> bytes:
    """Return what was printed, or nothing when the program has ended: then reading is an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def _drawn(char: pyte.screens.Char) -> tuple[str, Style]:
    return char.data, Style(
        color=_colour(char.fg), bgcolor=_colour(char.bg), bold=char.bold, reverse=char.reverse
    )


def _colour(name: str) -> str | None:
    """Return rich's name of a colour of the terminal."""
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return None if name == "default" else name.replace("brown", "yellow")


def _graph(workspace: Path, home: Path) -> str:
    """Return a picture of the graph with the path of a real turn, numbered."""
    settings = Settings(workspace=workspace, home=home, model="offline")
    agent = build_graph(settings).compile(checkpointer=InMemorySaver())
    labels = {(edge.source, edge.target): str(edge.data) for edge in agent.get_graph().edges}
    path = [*_path(agent)]
    taken = [*pairwise(path)]
    lines = [_edge(*edge, "") for edge in labels if edge not in taken and {*edge} <= {*_PLACES}]
    lines += [_edge(*edge, "taken") for edge in dict.fromkeys(taken)]
    for name, (x, y) in _PLACES.items():
        kind = "node ran" if name in path else "node"
        lines.append(f'<rect class="{kind}" x="{x - 55}" y="{y - 20}" width="110" height="40" rx="10"/>')
        lines.append(f'<text x="{x}" y="{y + 5}">{name}</text>')
    for number, edge in enumerate(taken, 1):
        row = 30 + 30 * number
        lines += [_number(number, *_middle(*edge)), _number(number, 540, row)]
        told = escape(f"{edge[0]} → {edge[1]}: {labels[edge]}")
        lines.append(f'<text class="told" x="558" y="{row + 5}">{told}</text>')
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 460" role="img">'
    title = f"<title>The nodes of a turn: {' → '.join(path)}</title>"
    page = '<rect width="100%" height="100%" rx="12" fill="#ffffff"/>'
    return "\n".join([head, title, f"<style>{_STYLE}</style>", page, *lines, "</svg>", ""])


def _path(agent: CompiledAgent) -> Iterator[str]:
    """Yield the nodes of a turn in which a person approves a script."""
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    asked = {"messages": [HumanMessage(QUESTION)]}
    answers: tuple[Any, ...] = (asked, Command(resume={"decisions": [{"type": "approve"}]}))
    for given in answers:
        for step in agent.stream(given, config, stream_mode="updates"):
            yield from (node for node in step if node in _PLACES)


def _edge(source: str, target: str, kind: str) -> str:
    (x, y), (to_x, to_y) = _PLACES[source], _PLACES[target]
    bend_x, bend_y = (x + to_x) / 2 + (y - to_y) * _BEND, (y + to_y) / 2 + (to_x - x) * _BEND
    return f'<path class="{kind}" d="M{x} {y}Q{bend_x:.0f} {bend_y:.0f} {to_x} {to_y}"/>'


def _middle(source: str, target: str) -> tuple[float, float]:
    (x, y), (to_x, to_y) = _PLACES[source], _PLACES[target]
    return (x + to_x + (y - to_y) * _BEND) / 2, (y + to_y + (to_x - x) * _BEND) / 2


def _number(number: int, x: float, y: float) -> str:
    circle = f'<circle cx="{x:.0f}" cy="{y:.0f}" r="10"/>'
    return f'{circle}<text class="number" x="{x:.0f}" y="{y + 4:.0f}">{number}</text>'


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "pictures")
