def obeying(frame, rules, generator, groups=None):
    return frame
