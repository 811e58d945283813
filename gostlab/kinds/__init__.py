"""The kinds: tunnels, queueing disciplines, traffic. A file each, that nothing else names: what it
declares (gostlab.declared) has it found.
"""
