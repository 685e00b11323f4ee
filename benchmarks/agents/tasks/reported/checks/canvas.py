"""garden.canvas is a canvas that Obsidian opens, with all notes connected, and none above another."""

import json
import re
import sys
from itertools import combinations
from pathlib import Path

canvas = json.loads(Path("garden.canvas").read_text(encoding="utf-8"))
nodes, edges = canvas["nodes"], canvas["edges"]
ids = [thing["id"] for thing in [*nodes, *edges]]
if (
    {*canvas} != {"nodes", "edges"}
    or not all(re.fullmatch("[0-9a-f]{16}", name) for name in ids)
    or len({*ids}) < len(ids)
):
    sys.exit(f"keys {[*canvas]}, ids {ids}")
ends = {edge[end] for edge in edges for end in ("fromNode", "toNode")}
if ends != {node["id"] for node in nodes} or len(nodes) < 9:
    sys.exit(f"{len(nodes)} nodes, and {len(ends)} are connected")
for a, b in combinations(nodes, 2):
    if abs(a["x"] - b["x"]) < 320 and abs(a["y"] - b["y"]) < 200:
        sys.exit(f"{a['text']} and {b['text']} are too near")
