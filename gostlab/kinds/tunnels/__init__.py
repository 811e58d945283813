"""The tunnels: a file each (gostlab.guest.tunnel), and what several of them share."""
