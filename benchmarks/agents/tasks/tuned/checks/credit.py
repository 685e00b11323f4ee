"""The test passes, the amount is positive, and the test is the one that was there."""

import subprocess
import sys
from pathlib import Path

if 'case "$line" in credit*)' not in Path("repo/tests/test_credit_note.sh").read_text(encoding="utf-8"):
    sys.exit("the test was changed")
said = subprocess.run(
    ["sh", "credit_note.sh", "40"], cwd="repo", capture_output=True, text=True, check=True
).stdout
if said.split() != ["credit", "40"]:
    sys.exit(f"a credit note over 40 is printed as {said!r}")
