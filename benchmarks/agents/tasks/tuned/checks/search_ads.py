"""ads.csv is four ads as they are uploaded, and each text fits: 30 characters, 90 for a description."""

import csv
import sys
from pathlib import Path

COLUMNS = ["headline_1", "headline_2", "headline_3", "description_1", "description_2", "platform"]
rows = list(csv.DictReader(Path("ads.csv").read_text(encoding="utf-8").splitlines()))
if len(rows) != 4 or any(list(row) != COLUMNS or row["platform"] != "google_ads" for row in rows):
    sys.exit(f"{len(rows)} rows with {list(rows[0]) if rows else 'nothing'}")
for row in rows:
    for name in COLUMNS[:-1]:
        if not 0 < len(row[name]) <= (30 if name.startswith("headline") else 90):
            sys.exit(f"{name} has {len(row[name])} characters: {row[name]}")
