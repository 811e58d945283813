# SPDX-License-Identifier: MIT
"""Tunnel plugins, one file each (gostlab.guest.start_tunnel), and the modules that they share."""
