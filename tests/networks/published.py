"""Small builders of published networks that are no presets: read by test_published.py as a file of a person.

Written for this project after the papers that PUBLISHED names; figures there are those of the paper, or of
torchvision 0.15's or timm 0.9's table of models (read 2026-11), in multiply-accumulates of one image.
"""

import keras
from keras import layers, ops


def conv(x, filters, kernel, stride=1, groups=1, activation="relu", padding="same", norm=True):
    layer = layers.Conv2D(filters, kernel, stride, padding, groups=groups, use_bias=not norm)
    x = layer(x)
    x = layers.BatchNormalization()(x) if norm else x
    return layers.Activation(activation)(x) if activation else x


def depthwise(x, kernel, stride=1, activation=None):
    x = layers.BatchNormalization()(layers.DepthwiseConv2D(kernel, stride, "same", use_bias=False)(x))
    return layers.Activation(activation)(x) if activation else x


def classifier(image, x, classes):
    return keras.Model(image, layers.Dense(classes)(layers.GlobalAveragePooling2D()(x)))


class Tokens(layers.Layer):
    """Puts a class token before the patches and adds learned positions."""

    def build(self, shape):
        self.token = self.add_weight(shape=(1, 1, shape[-1]))
        self.positions = self.add_weight(shape=(1, shape[1] + 1, shape[-1]))

    def call(self, x):
        token = ops.zeros_like(x[:, :1]) + self.token
        return ops.concatenate([token, x], axis=1) + self.positions


def attend(x, heads, dimension):
    return layers.MultiHeadAttention(heads, dimension // heads)(x, x)


def perceptron(x, hidden, dimension):
    return layers.Dense(dimension)(layers.Dense(hidden, activation="gelu")(x))


def transformer(x, depth, heads, dimension):
    for _ in range(depth):
        x = x + attend(layers.LayerNormalization()(x), heads, dimension)
        x = x + perceptron(layers.LayerNormalization()(x), 4 * dimension, dimension)
    return layers.LayerNormalization()(x)


def vision_transformer(image_size, channels, classes, patch, depth, heads, dimension):
    image = keras.Input((image_size, image_size, channels))
    x = layers.Conv2D(dimension, patch, patch)(image)
    x = Tokens()(layers.Reshape((-1, dimension))(x))
    return keras.Model(image, layers.Dense(classes)(transformer(x, depth, heads, dimension)[:, 0]))


def vit_b16(image_size, channels, classes):
    return vision_transformer(image_size, channels, classes, 16, 12, 12, 768)


def vit_b32(image_size, channels, classes):
    return vision_transformer(image_size, channels, classes, 32, 12, 12, 768)


def vit_s16(image_size, channels, classes):
    return vision_transformer(image_size, channels, classes, 16, 12, 6, 384)


def deit_ti(image_size, channels, classes):
    return vision_transformer(image_size, channels, classes, 16, 12, 3, 192)


class Shifted(layers.Layer):
    """Attention within windows, with a learned bias by relative place."""

    def __init__(self, heads, window):
        super().__init__()
        self.heads, self.window = heads, window

    def build(self, shape):
        dimension, places = shape[-1], self.window**2
        self.size = shape[1]
        self.qkv, self.project = layers.Dense(3 * dimension), layers.Dense(dimension)
        self.qkv.build((None, places, dimension))
        self.project.build((None, places, dimension))
        self.table = self.add_weight(shape=((2 * self.window - 1) ** 2, self.heads))

    def call(self, x):
        window, heads, dimension, count = self.window, self.heads, x.shape[-1], self.size // self.window
        x = ops.reshape(x, (-1, count, window, count, window, dimension))
        x = ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, window**2, dimension))
        x = ops.reshape(self.qkv(x), (-1, window**2, 3, heads, dimension // heads))
        query, key, value = ops.unstack(ops.transpose(x, (2, 0, 3, 1, 4)), 3, axis=0)
        scores = ops.matmul(query * 0.1, ops.transpose(key, (0, 1, 3, 2)))
        bias = ops.take(self.table, ops.zeros((window**2, window**2), "int32"), axis=0)
        weights = ops.softmax(scores + ops.transpose(bias, (2, 0, 1)))
        x = ops.reshape(ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3)), (-1, window**2, dimension))
        x = ops.reshape(self.project(x), (-1, count, count, window, window, dimension))
        return ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, self.size, self.size, dimension))


def swin_t(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.LayerNormalization()(layers.Conv2D(96, 4, 4)(image))
    for stage, (depth, heads) in enumerate(((2, 3), (2, 6), (6, 12), (2, 24))):
        if stage:
            parts = [x[:, first::2, second::2] for second in (0, 1) for first in (0, 1)]
            x = layers.Dense(2 * x.shape[-1], use_bias=False)(layers.LayerNormalization()(ops.concatenate(parts, -1)))
        for _ in range(depth):
            x = x + Shifted(heads, 7)(layers.LayerNormalization()(x))
            x = x + perceptron(layers.LayerNormalization()(x), 4 * x.shape[-1], x.shape[-1])
    return classifier(image, layers.LayerNormalization()(x), classes)


def convmixer_768_32(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.BatchNormalization()(layers.Conv2D(768, 7, 7, activation="relu")(image))
    for _ in range(32):
        y = layers.BatchNormalization()(layers.DepthwiseConv2D(7, padding="same", activation="relu")(x))
        x = layers.BatchNormalization()(layers.Conv2D(768, 1, activation="relu")(layers.Add()([x, y])))
    return classifier(image, x, classes)


def mixer_b16(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.Reshape((-1, 768))(layers.Conv2D(768, 16, 16)(image))
    for _ in range(12):
        y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        x = x + layers.Permute((2, 1))(perceptron(y, 384, x.shape[1]))
        x = x + perceptron(layers.LayerNormalization()(x), 3072, 768)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(image, layers.Dense(classes)(x))


class Affine(layers.Layer):
    def build(self, shape):
        self.factor = self.add_weight(shape=(shape[-1],))
        self.offset = self.add_weight(shape=(shape[-1],))

    def call(self, x):
        return x * self.factor + self.offset


def resmlp_s24(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.Reshape((-1, 384))(layers.Conv2D(384, 16, 16)(image))
    for _ in range(24):
        y = layers.Dense(x.shape[1])(layers.Permute((2, 1))(Affine()(x)))
        x = x + Scale()(layers.Permute((2, 1))(y))
        x = x + Scale()(perceptron(Affine()(x), 1536, 384))
    return keras.Model(image, layers.Dense(classes)(layers.GlobalAveragePooling1D()(Affine()(x))))


class Scale(layers.Layer):
    def build(self, shape):
        self.factor = self.add_weight(shape=(shape[-1],))

    def call(self, x):
        return x * self.factor


def gmlp_s16(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.Reshape((-1, 256))(layers.Conv2D(256, 16, 16)(image))
    for _ in range(30):
        first, second = ops.split(layers.Dense(1536, activation="gelu")(layers.LayerNormalization()(x)), 2, axis=-1)
        second = layers.Permute((2, 1))(layers.LayerNormalization()(second))
        second = layers.Permute((2, 1))(layers.Dense(x.shape[1])(second))
        x = x + layers.Dense(256)(first * second)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(image, layers.Dense(classes)(x))


def googlenet(image_size, channels, classes, auxiliary=False):
    def inception(x, one, three_in, three, five_in, five, pooled):
        pool = layers.MaxPooling2D(3, 1, "same")(x)
        parts = [conv(x, one, 1), conv(conv(x, three_in, 1), three, 3), conv(conv(x, five_in, 1), five, 3)]
        return layers.Concatenate()([*parts, conv(pool, pooled, 1)])

    image = keras.Input((image_size, image_size, channels))
    x = layers.MaxPooling2D(3, 2, "same")(conv(image, 64, 7, 2))
    x = layers.MaxPooling2D(3, 2, "same")(conv(conv(x, 64, 1), 192, 3))
    x = inception(inception(x, 64, 96, 128, 16, 32, 32), 128, 128, 192, 32, 96, 64)
    x = inception(layers.MaxPooling2D(3, 2, "same")(x), 192, 96, 208, 16, 48, 64)
    heads = [x]
    x = inception(
        inception(inception(x, 160, 112, 224, 24, 64, 64), 128, 128, 256, 24, 64, 64), 112, 144, 288, 32, 64, 64
    )
    heads.append(x)
    x = layers.MaxPooling2D(3, 2, "same")(inception(x, 256, 160, 320, 32, 128, 128))
    x = inception(inception(x, 256, 160, 320, 32, 128, 128), 384, 192, 384, 48, 128, 128)
    x = layers.Dense(classes)(layers.GlobalAveragePooling2D()(x))
    if not auxiliary:
        return keras.Model(image, x)
    ends = []
    for head in heads:  # of 4 x 4 places, as with images of 224 px
        y = conv(layers.AveragePooling2D(5, 3)(head), 128, 1)
        y = layers.Dense(1024, activation="relu")(layers.Flatten()(y))
        ends.append(layers.Dense(classes)(y))
    return keras.Model(image, layers.Average()([x, *ends]))


def googlenet_with_heads(image_size, channels, classes):
    return googlenet(image_size, channels, classes, auxiliary=True)


def shuffle(x):
    height, width, channels = x.shape[1:]
    x = layers.Permute((1, 2, 4, 3))(layers.Reshape((height, width, 2, channels // 2))(x))
    return layers.Reshape((height, width, channels))(x)


def shufflenet_v2(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.MaxPooling2D(3, 2, "same")(conv(image, 24, 3, 2))
    for filters, repeats in ((116, 4), (232, 8), (464, 4)):
        half = filters // 2
        left = conv(depthwise(x, 3, 2), half, 1)
        right = conv(depthwise(conv(x, half, 1), 3, 2), half, 1)
        x = shuffle(layers.Concatenate()([left, right]))
        for _ in range(repeats - 1):
            left, right = ops.split(x, 2, axis=-1)
            x = shuffle(layers.Concatenate()([left, conv(depthwise(conv(right, half, 1), 3), half, 1)]))
    return classifier(image, conv(x, 1024, 1), classes)


def squeeze(x, hidden, last="sigmoid"):
    y = layers.GlobalAveragePooling2D(keepdims=True)(x)
    return x * layers.Conv2D(x.shape[-1], 1, activation=last)(layers.Conv2D(hidden, 1, activation="relu")(y))


def bottlenecks(image, width=1, groups=1, squeezed=False, first=False):
    x = layers.MaxPooling2D(3, 2, "same")(conv(image, 64, 7, 2))
    for stage, depth in enumerate((3, 4, 6, 3)):
        filters = 64 * 2**stage
        for number in range(depth):
            stride = 2 if stage and not number else 1
            strides = (stride, 1) if first else (1, stride)
            y = conv(conv(x, width * filters, 1, strides[0]), width * filters, 3, strides[1], groups)
            y = conv(y, 4 * filters, 1, activation=None)
            y = squeeze(y, filters // 4) if squeezed else y
            short = x if number else conv(x, 4 * filters, 1, stride, activation=None)
            x = layers.ReLU()(layers.Add()([short, y]))
    return x


def se_resnet50(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    return classifier(image, bottlenecks(image, squeezed=True, first=True), classes)


def resnext50(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    return classifier(image, bottlenecks(image, 2, 32), classes)


def wide_resnet50_2(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    return classifier(image, bottlenecks(image, 2), classes)


def wrn_28_10(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(image)
    for stage, filters in enumerate((160, 320, 640)):
        for number in range(4):
            stride = 2 if stage and not number else 1
            y = layers.ReLU()(layers.BatchNormalization()(x))
            short = x if number else layers.Conv2D(filters, 1, stride, use_bias=False)(y)
            y = conv(y, filters, 3, stride)
            x = layers.Add()([short, layers.Conv2D(filters, 3, padding="same", use_bias=False)(y)])
    return classifier(image, layers.ReLU()(layers.BatchNormalization()(x)), classes)


def mnasnet(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = conv(depthwise(conv(image, 32, 3, 2), 3, activation="relu"), 16, 1, activation=None)
    rows = (
        (24, 3, 3, 2, 3),
        (40, 3, 3, 2, 5),
        (80, 3, 6, 2, 5),
        (96, 2, 6, 1, 3),
        (192, 4, 6, 2, 5),
        (320, 1, 6, 1, 3),
    )
    for filters, repeats, factor, stride, kernel in rows:
        for number in range(repeats):
            y = depthwise(conv(x, factor * x.shape[-1], 1), kernel, 1 if number else stride, "relu")
            y = conv(y, filters, 1, activation=None)
            x = layers.Add()([x, y]) if number else y
    return classifier(image, conv(x, 1280, 1), classes)


def ghost(x, filters, activation="relu"):
    half = conv(x, -(-filters // 2), 1, activation=activation)
    return layers.Concatenate()([half, depthwise(half, 3, activation=activation)])


def ghostnet(image_size, channels, classes):
    rows = (
        (3, 16, 16, 0, 1), (3, 48, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 0.25, 2), (5, 120, 40, 0.25, 1),
        (3, 240, 80, 0, 2), (3, 200, 80, 0, 1), (3, 184, 80, 0, 1), (3, 184, 80, 0, 1), (3, 480, 112, 0.25, 1),
        (3, 672, 112, 0.25, 1), (5, 672, 160, 0.25, 2), (5, 960, 160, 0, 1), (5, 960, 160, 0.25, 1),
        (5, 960, 160, 0, 1), (5, 960, 160, 0.25, 1),
    )  # fmt: skip
    image = keras.Input((image_size, image_size, channels))
    x = conv(image, 16, 3, 2)
    for kernel, hidden, filters, squeezed, stride in rows:
        y = ghost(x, hidden)
        y = depthwise(y, kernel, stride) if stride > 1 else y
        y = squeeze(y, (int(hidden * squeezed) + 2) // 4 * 4, "hard_sigmoid") if squeezed else y
        y = ghost(y, filters, None)
        if stride > 1 or x.shape[-1] != filters:
            x = conv(depthwise(x, kernel, stride), filters, 1, activation=None)
        x = layers.Add()([x, y])
    x = layers.GlobalAveragePooling2D(keepdims=True)(conv(x, 960, 1))
    return keras.Model(image, layers.Dense(classes)(layers.Flatten()(layers.Conv2D(1280, 1, activation="relu")(x))))


def alexnet(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.Conv2D(64, 11, 4, activation="relu")(layers.ZeroPadding2D(2)(image))
    x = layers.Conv2D(192, 5, padding="same", activation="relu")(layers.MaxPooling2D(3, 2)(x))
    x = layers.MaxPooling2D(3, 2)(x)
    for filters in (384, 256, 256):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.Flatten()(layers.MaxPooling2D(3, 2)(x))
    for _ in range(2):
        x = layers.Dense(4096, activation="relu")(layers.Dropout(0.5)(x))
    return keras.Model(image, layers.Dense(classes)(x))


def squeezenet(image_size, channels, classes):
    def fire(x, narrow, wide):
        x = layers.Conv2D(narrow, 1, activation="relu")(x)
        parts = [layers.Conv2D(wide, kernel, padding="same", activation="relu")(x) for kernel in (1, 3)]
        return layers.Concatenate()(parts)

    image = keras.Input((image_size, image_size, channels))
    x = layers.MaxPooling2D(3, 2)(layers.Conv2D(64, 3, 2, activation="relu")(image))
    x = layers.MaxPooling2D(3, 2)(fire(fire(x, 16, 64), 16, 64))
    x = layers.MaxPooling2D(3, 2)(fire(fire(x, 32, 128), 32, 128))
    x = fire(fire(fire(fire(x, 48, 192), 48, 192), 64, 256), 64, 256)
    return keras.Model(image, layers.GlobalAveragePooling2D()(layers.Conv2D(classes, 1)(x)))


def clip_of(image, frames):
    """A clip from one image that holds its frames one after another."""
    side = round((image.shape[1] * image.shape[2] // frames) ** 0.5)
    return layers.Reshape((frames, side, side, image.shape[3]))(image)


def c3d(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = clip_of(image, 16)
    for number, (filters, depth) in enumerate(((64, 1), (128, 1), (256, 2), (512, 2), (512, 2))):
        for _ in range(depth):
            x = layers.Conv3D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling3D((2 if number else 1, 2, 2), padding="same" if number == 4 else "valid")(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = layers.Dense(4096, activation="relu")(x)
    return keras.Model(image, layers.Dense(classes)(x))


def video_resnet(image_size, channels, classes, stem, unit):
    def block(x, filters, stride):
        given = x.shape[-1]
        y = layers.ReLU()(layers.BatchNormalization()(unit(x, given, filters, stride)))
        y = layers.BatchNormalization()(unit(y, given, filters, 1))
        if stride > 1:
            x = layers.BatchNormalization()(layers.Conv3D(filters, 1, stride, use_bias=False)(x))
        return layers.ReLU()(layers.Add()([x, y]))

    image = keras.Input((image_size, image_size, channels))
    x = stem(clip_of(image, 16))
    for filters in (64, 128, 256, 512):
        x = block(block(x, filters, 1 if filters == 64 else 2), filters, 1)
    return keras.Model(image, layers.Dense(classes)(layers.GlobalAveragePooling3D()(x)))


def normed(x, filters, kernel, stride):
    x = layers.Conv3D(filters, kernel, stride, "same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def r3d_18(image_size, channels, classes):
    def unit(x, given, filters, stride):
        return layers.Conv3D(filters, 3, stride, "same", use_bias=False)(x)

    return video_resnet(image_size, channels, classes, lambda x: normed(x, 64, (3, 7, 7), (1, 2, 2)), unit)


def r2plus1d_18(image_size, channels, classes):
    def unit(x, given, filters, stride):
        middle = given * filters * 27 // (given * 9 + 3 * filters)
        x = normed(x, middle, (1, 3, 3), (1, stride, stride))
        return layers.Conv3D(filters, (3, 1, 1), (stride, 1, 1), "same", use_bias=False)(x)

    def stem(x):
        return normed(normed(x, 45, (1, 7, 7), (1, 2, 2)), 64, (3, 1, 1), 1)

    return video_resnet(image_size, channels, classes, stem, unit)


def mobilevit_s(image_size, channels, classes):
    def inverted(x, filters, stride):
        y = conv(
            depthwise(conv(x, 4 * x.shape[-1], 1, activation="silu"), 3, stride, "silu"), filters, 1, activation=None
        )
        return layers.Add()([x, y]) if stride == 1 and x.shape[-1] == filters else y

    def unfolded(x, dimension, depth):
        height, width, filters = x.shape[1:]
        y = layers.Conv2D(dimension, 1, use_bias=False)(conv(x, filters, 3, activation="silu"))
        y = layers.Permute((2, 4, 1, 3, 5))(layers.Reshape((height // 2, 2, width // 2, 2, dimension))(y))
        y = ops.reshape(y, (-1, height * width // 4, dimension))
        for _ in range(depth):
            y = y + attend(layers.LayerNormalization()(y), 4, dimension)
            z = layers.Dense(2 * dimension, activation="silu")(layers.LayerNormalization()(y))
            y = y + layers.Dense(dimension)(z)
        y = ops.reshape(layers.LayerNormalization()(y), (-1, 2, 2, height // 2, width // 2, dimension))
        y = layers.Reshape((height, width, dimension))(layers.Permute((3, 1, 4, 2, 5))(y))
        y = layers.Concatenate()([x, conv(y, filters, 1, activation="silu")])
        return conv(y, filters, 3, activation="silu")

    image = keras.Input((image_size, image_size, channels))
    x = inverted(conv(image, 16, 3, 2, activation="silu"), 32, 1)
    for stride in (2, 1, 1):
        x = inverted(x, 64, stride)
    for filters, dimension, depth in ((96, 144, 2), (128, 192, 4), (160, 240, 3)):
        x = unfolded(inverted(x, filters, 2), dimension, depth)
    return classifier(image, conv(x, 640, 1, activation="silu"), classes)


def poolformer_s12(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.Conv2D(64, 7, 4)(layers.ZeroPadding2D(2)(image))
    for stage, (filters, depth) in enumerate(((64, 2), (128, 2), (320, 6), (512, 2))):
        x = layers.Conv2D(filters, 3, 2, "same")(x) if stage else x
        for _ in range(depth):
            y = layers.GroupNormalization(1)(x)
            x = x + Scale()(layers.AveragePooling2D(3, 1, "same")(y) - y)
            y = layers.Conv2D(4 * filters, 1, activation="gelu")(layers.GroupNormalization(1)(x))
            x = x + Scale()(layers.Conv2D(filters, 1)(y))
    return classifier(image, layers.GroupNormalization(1)(x), classes)


def pvt_tiny(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = image
    rows = ((64, 1, 8, 8, 4), (128, 2, 8, 4, 2), (320, 5, 4, 2, 2), (512, 8, 4, 1, 2))
    for dimension, heads, factor, reduction, patch in rows:
        x = layers.LayerNormalization()(layers.Conv2D(dimension, patch, patch)(x))
        side = x.shape[1]
        x = Places()(layers.Reshape((side * side, dimension))(x))
        for _ in range(2):
            y = z = layers.LayerNormalization()(x)
            if reduction > 1:
                z = layers.Conv2D(dimension, reduction, reduction)(layers.Reshape((side, side, dimension))(z))
                z = layers.LayerNormalization()(layers.Reshape((-1, dimension))(z))
            x = x + layers.MultiHeadAttention(heads, dimension // heads)(y, z)
            x = x + perceptron(layers.LayerNormalization()(x), factor * dimension, dimension)
        x = layers.Reshape((side, side, dimension))(x)
    return classifier(image, layers.LayerNormalization()(x), classes)


class Places(layers.Layer):
    def build(self, shape):
        self.positions = self.add_weight(shape=(1, *shape[1:]))

    def call(self, x):
        return x + self.positions


def crnn(image_size, channels, classes):
    image = keras.Input((image_size, image_size, channels))
    x = layers.Reshape((32, -1, channels))(image)
    for filters, pool in ((64, (2, 2)), (128, (2, 2)), (256, None), (256, (2, 1)), (512, None), (512, (2, 1))):
        x = conv(x, filters, 3, norm=filters == 512)
        x = layers.MaxPooling2D(pool)(x) if pool else x
    x = layers.Reshape((-1, 512))(layers.Conv2D(512, 2, activation="relu")(x))
    for _ in range(2):
        x = layers.Bidirectional(layers.LSTM(256, return_sequences=True))(x)
    return keras.Model(image, layers.GlobalAveragePooling1D()(layers.Dense(classes)(x)))


PUBLISHED = {
    "vit_b16": (224, 1000, 86_567_656, 17.56e9, "torchvision"),
    "vit_b32": (224, 1000, 88_224_232, 4.41e9, "torchvision"),
    "vit_s16": (224, 1000, 22_050_664, 4.61e9, "timm, vit_small_patch16_224"),
    "deit_ti": (224, 1000, 5_717_416, 1.26e9, "timm, deit_tiny_patch16_224"),
    "swin_t": (224, 1000, 28_288_354, 4.49e9, "torchvision"),
    "convmixer_768_32": (
        224,
        1000,
        21_110_248,
        20.68e9,
        "by hand; MMPreTrain tells 19.62e9, without depthwise kernels (1.23e9)",
    ),
    "mixer_b16": (224, 1000, 59_880_472, 12.62e9, "timm"),
    "resmlp_s24": (224, 1000, 30_020_680, 5.96e9, "timm"),
    "gmlp_s16": (224, 1000, 19_422_656, 4.42e9, "timm"),
    "googlenet": (224, 1000, 6_624_904, 1.50e9, "torchvision"),
    "googlenet_with_heads": (224, 1000, 13_004_888, None, "torchvision, aux_logits"),
    "shufflenet_v2": (224, 1000, 2_278_604, 0.146e9, "arXiv 1807.11164, table 8"),
    "se_resnet50": (224, 1000, 28_088_024, 3.87e9, "arXiv 1709.01507, table 2; timm, seresnet50"),
    "resnext50": (224, 1000, 25_028_904, 4.23e9, "torchvision"),
    "wide_resnet50_2": (224, 1000, 68_883_240, 11.40e9, "torchvision"),
    "wrn_28_10": (32, 10, 36_479_194, 5.25e9, "arXiv 1605.07146; timm's count"),
    "mnasnet": (224, 1000, 4_383_312, 0.314e9, "torchvision, mnasnet1_0"),
    "ghostnet": (224, 1000, 5.2e6, 0.141e9, "arXiv 1911.11907, table 7"),
    "alexnet": (224, 1000, 61_100_840, 0.71e9, "torchvision"),
    "squeezenet": (224, 1000, 1_235_496, 0.35e9, "torchvision, squeezenet1_1"),
    "c3d": (448, 101, 78_409_573, 38.5e9, "arXiv 1412.0767; MMAction2's count"),
    "r3d_18": (448, 400, 33_371_472, 40.70e9, "torchvision"),
    "r2plus1d_18": (448, 400, 31_505_325, 40.52e9, "torchvision"),
    "mobilevit_s": (256, 1000, 5_578_632, 2.03e9, "MMPreTrain, mobilevit_small_in1k"),
    "poolformer_s12": (224, 1000, 11_915_176, 1.82e9, "timm"),
    "pvt_tiny": (224, 1000, 13.2e6, 1.9e9, "arXiv 2102.12122, table 2"),
}
"""Image size in pixels, classes, parameters and multiply-accumulates of a forward pass (None: not published),
and their source. Parameters with a point are published in millions to one digit."""
