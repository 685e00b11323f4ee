"""The notebook is one that Jupyter opens, and it explains before it computes."""

import json
import sys
from pathlib import Path

notebook = json.loads(Path("output/jupyter-notebook/joins-for-beginners.ipynb").read_text(encoding="utf-8"))
kinds = [cell["cell_type"] for cell in notebook["cells"]]
source = json.dumps([cell["source"] for cell in notebook["cells"]])
if notebook.get("nbformat") != 4 or kinds[:1] != ["markdown"] or kinds.count("code") < 2:
    sys.exit(f"nbformat {notebook.get('nbformat')}, cells {kinds}")
if missing := [word for word in ("inner", "left") if word not in source]:
    sys.exit(f"nothing about {missing}")
