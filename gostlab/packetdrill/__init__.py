"""Linux's own packetdrill scripts, run in the sandbox: is its TCP Linux's TCP?"""
