"""gostlab: what does a congestion control do for a secure tunnel over a real WAN?"""

__version__ = "0.2.0"
