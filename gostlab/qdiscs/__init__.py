"""The queueing disciplines: a file each (gostlab.guest.tc); some share one."""
