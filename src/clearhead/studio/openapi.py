"""The contract with the page as a file: `python -m clearhead.studio.openapi web/openapi.json`."""

import json
import sys
from pathlib import Path

from ..files import write_text
from .app import create_app


def schema() -> str:
    """The OpenAPI schema, keys in order: the same text on every machine."""
    return json.dumps(create_app().openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write_text(Path(sys.argv[1]), schema())
