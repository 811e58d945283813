# SPDX-License-Identifier: MIT
"""Traffic plugins, one file each (see gostlab.guest.traffic_plugins)."""
