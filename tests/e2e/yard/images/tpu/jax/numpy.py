"""Arrays of ones, and their products."""


class Filled:
    def __init__(self, shape, value=1.0):
        self.shape = shape
        self.value = value

    def __matmul__(self, other):
        return Filled((self.shape[0], other.shape[1]), self.value * other.value * self.shape[1])

    def sum(self):
        return self.value * self.shape[0] * self.shape[1]


def ones(shape):
    return Filled(shape)
