"""gostlab: what does a congestion control do for a secure tunnel over a real WAN?"""

from gostlab import lazy

lazy.install()

__version__ = "0.2.0"
