"""The tunnels: a file each (gostlab.guest.start_tunnel), and what several of them share."""
