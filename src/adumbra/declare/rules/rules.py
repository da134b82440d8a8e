class Rules:
    unmeasured = frozenset()

    @staticmethod
    def of(given, columns):
        return Rules()

    def to_list(self):
        return []

    def __bool__(self):
        return False

    def __eq__(self, o):
        return isinstance(o, Rules)

    def __hash__(self):
        return 1

    def complete(self, f):
        return f
