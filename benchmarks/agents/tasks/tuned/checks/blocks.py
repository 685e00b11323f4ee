"""The arguments of the two blocks are all there, in the order of the house."""

import re
import sys
from pathlib import Path

WANTED = {
    "main.tf": [
        "count",
        "allocation_id|subnet_id",
        "allocation_id|subnet_id",
        "tags",
        "depends_on",
        "lifecycle",
    ],
    "variables.tf": ["description", "type", "default", "validation", "nullable"],
}
for name, order in WANTED.items():
    text = Path(name).read_text(encoding="utf-8")
    found = re.findall(r"(?m)^  (\w+)\s*[={]", text)
    if len(found) != len(order) or not all(map(re.fullmatch, order, found)):
        sys.exit(f"{name}: {found}")
if not re.search(r"count .*\n\n", Path("main.tf").read_text(encoding="utf-8")):
    sys.exit("no blank line after count")
