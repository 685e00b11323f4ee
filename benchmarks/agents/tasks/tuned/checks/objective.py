"""slo.json asks for an indicator of a type, and for a target: objective.py TYPE TARGET."""

import json
import sys
from pathlib import Path

kind, target = sys.argv[1:]
body = json.loads(Path("slo.json").read_text(encoding="utf-8"))
found = (body["indicator"]["type"], body["objective"]["target"], body["timeWindow"].get("duration"))
if found != (kind, float(target), "30d") or "checkout" not in json.dumps(body["indicator"]):
    sys.exit(f"{found}, of {body['indicator']}")
