"""shopify.app.toml defines a field of products and an object, each owned by the app."""

import sys
import tomllib
from pathlib import Path

text = Path("shopify.app.toml").read_text(encoding="utf-8")
app = tomllib.loads(text)
hint, designer = app["product"]["metafields"]["app"]["washing_hint"], app["metaobjects"]["app"]["designer"]
name = designer["fields"]["name"]
if hint["type"] != "single_line_text_field" or hint["access"]["admin"] != "merchant_read_write":
    sys.exit(f"washing_hint is {hint}")
if (
    designer["access"]["storefront"] != "public_read"
    or name["required"] is not True
    or app["client_id"] != "a1b2"
):
    sys.exit(f"designer is {designer}")
