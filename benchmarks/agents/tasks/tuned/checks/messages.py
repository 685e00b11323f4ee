"""lib/messages.dart says the same in lines of 80 characters, and the link of its comment stands by itself."""

import re
import sys
from pathlib import Path

text = Path("lib/messages.dart").read_text(encoding="utf-8")
code = re.sub(r"(?m)^\s*//.*", "", text)
said = "".join(f"{a}{b}" for a, b in re.findall(r"'''(.*?)'''|'([^'\n]*)'", code, re.DOTALL)).replace(
    "\\n", "\n"
)
if long := re.findall(r"(?m)^.{81,}", text):
    sys.exit(f"too long: {long[0]}")
if missing := [
    each for each in ("storm, and opens again tomorrow", "m.\nThe shop", "e.\nPlease") if each not in said
]:
    sys.exit(f"{missing} is missing in {said}")
if "+" in code or not re.search(r"(?m)^/// \[[^\]]+\]: https://\S+/what-visitors-read$", text):
    sys.exit("strings are added up, or the link stands in its sentence")
