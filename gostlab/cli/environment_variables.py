# SPDX-License-Identifier: MIT
"""Declare the environment variables that gostlab reads, for its reference page and man page."""

from collections.abc import Mapping

VARIABLES: Mapping[str, str] = {
    "GOSTLAB_CACHE": "folder of what `./lab setup` made (default: `$XDG_CACHE_HOME/gostlab`, or"
    " `~/.cache/gostlab`)",
    "GOSTLAB_CONFIG": "file with the user's defaults, empty for none (default:"
    " `$XDG_CONFIG_HOME/gostlab/config.yaml`, or `~/.config/gostlab/config.yaml`)",
    "GOSTLAB_SYSTEM": "folder of the parts that root set up for all users, empty for none"
    " (default: `/usr/local/lib/gostlab`)",
    "GOSTLAB_KERNEL": "program that sandboxes boot, in place of the kernel that was set up",
    "GOSTLAB_GOST": "GOST that runs take if `--gost` names none",
    "GOSTLAB_ROOT": "first digits of the hash that the sandbox's root must have",
    "GOSTLAB_SNAPSHOT": "URL of an archive of Debian's old packages, for those that a mirror lost",
    "GOSTLAB_TMP": "folder for the memory of sandboxes (default: a tmpfs with enough room)",
    "GOSTLAB_IMAGE": "name of the container image, which a run's `env.json` records",
    "TMPDIR": "folder for temporary files",
    "COLUMNS": "width of tables and help",
}
# What gostlab passes to processes of its own.
INTERNAL = frozenset(
    f"GOSTLAB_{name}"
    for name in "ALLOW_PIPE BOOT BROUGHT HOST MEMORY NOT_LOADED PLUGINS WHEEL_TAG WORKER".split()
)
