"""The best-known networks, operator by operator: as `keras.applications` has them, or torchvision where Keras has none.

`presets` has them by name.
"""
