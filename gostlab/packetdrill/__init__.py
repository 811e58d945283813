# SPDX-License-Identifier: MIT
"""Run Linux's own packetdrill scripts in the sandbox to verify its TCP."""
