# SPDX-License-Identifier: MIT
"""Write the pages and the schemas."""

from tools.reference.pages import generated

for path, text in generated().items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
