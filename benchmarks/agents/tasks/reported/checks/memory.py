"""memory.jsonl keeps its record, and has one for each note that is understood without the talk."""

import json
import re
import sys
from pathlib import Path

FIELDS = {"id", "timestamp", "type", "content", "entities", "tags", "source", "consolidated_into"}
old, *new = map(json.loads, Path("memory/memory.jsonl").read_text(encoding="utf-8").splitlines())
said = " ".join(record["content"] for record in new)
for record in new:
    if (
        {*record} != FIELDS
        or not re.fullmatch(r"mem-\d{4}-\d\d-\d\d-\d{3}", record["id"])
        or record["consolidated_into"]
    ):
        sys.exit(f"not in the form of the others: {record}")
    if (
        record["type"] not in {"fact", "pattern", "event", "preference", "insight"}
        or not 1 <= len(record["tags"]) <= 5
    ):
        sys.exit(f"type {record['type']}, tags {record['tags']}")
if old["id"] != "mem-2026-02-01-001" or not {"preference"} <= {record["type"] for record in new}:
    sys.exit(f"first {old['id']}, and {len(new)} new")
if "2026-03-03" not in said or "German" not in said or re.search(r"\b(I|[Ss]he|[Yy]esterday)\b", said):
    sys.exit(f"not understood by itself: {said}")
