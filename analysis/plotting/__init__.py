# SPDX-License-Identifier: MIT
"""Draw figures by matplotlib."""

import warnings

# Debian's python3-matplotlib, if that is installed too, has the place of ours (mpl_toolkits), and
# no figure is three-dimensional.
warnings.filterwarnings("ignore", "Unable to import Axes3D", UserWarning)
