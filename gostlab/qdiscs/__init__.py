# SPDX-License-Identifier: MIT
"""Queueing disciplines, one file each (gostlab.guest.tc); some share a file."""
