# SPDX-License-Identifier: MIT
"""Test a congestion control against drafts and RFCs: `./lab cc test NAME` or FILE.c."""
