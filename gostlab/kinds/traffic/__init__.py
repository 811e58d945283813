"""The kinds of traffic: a file each (gostlab.guest.carriers), and what they run on a node."""
