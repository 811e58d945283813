"""docs/reference and the schemas of schemas/, made from where each word is defined.

    python3 -m gostlab.reference      writes them

A page is a template here, filled with tables of what the code declares. A test fails where a page
is not what this makes.
"""
