def changes_of(path):
    return ()
