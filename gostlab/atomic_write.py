# SPDX-License-Identifier: MIT
"""Write files atomically: a reader sees the old content or the new one, and no part."""

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any, *, to_disk: bool = True) -> None:
    """Write an indented JSON file atomically. Raises OSError.

    to_disk  whether to wait until its content is on the disk
    """
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    write_whole(path, f"{text}\n", to_disk=to_disk)


def write_whole(path: Path, content: str | bytes, *, to_disk: bool = False) -> Path:
    """Write a file atomically, by rename, and return its path. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The temporary name is random, because shards on several machines may write the same file at
    # the same time. Mode "xb" does not follow a symbolic link that a run left in its folder.
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with part.open("xb") as file:
            # A lone surrogate (from a file name that is not UTF-8) becomes a question mark.
            data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
            file.write(data)
            if to_disk:
                file.flush()
                os.fsync(file.fileno())
        return part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
