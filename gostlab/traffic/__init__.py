"""Traffic plugins: a file each (see gostlab.guest.traffic_plugins)."""
