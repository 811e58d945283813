# SPDX-License-Identifier: MIT
"""Write results into the site and into docs/: `make results`.

python3 -m tools.results_pages --site   every study, figure and number, as HTML in site/
python3 -m tools.results_pages --docs   docs/results.md, and the tables between marks in docs/
"""
