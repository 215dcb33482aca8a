"""The parts of docs/accuracy.md that no fold computes."""

from __future__ import annotations

# ruff: noqa: E501 (rows of a Markdown table)

BEGINNING = """# How right the throughput estimate is

Made by `make accuracy`; do not edit. Every figure is of rows that the model in question was not fitted to: for each
fold its constants, its variances and its corrections are fitted anew without the rows left out. The folds follow from
the rows' model, source, device and precision (`scripts/fit/folds.py`); the shuffle of single configurations is in
`scripts/fit/folds.json`. Rows: VGG, training, quality A and B, on a device with known rates. An error is
(predicted - measured) / measured; MAPE is the mean of its absolute value. The interval that a fold is held against
comes from the errors of the other folds.
"""

# Why the worst rows are off, by how their id begins.
WHY = {
    "justus": "TensorFlow slim 1.x, batch 1 to 4: 65 ms a step whatever the batch, nearly all of it the framework's",
    "soumith": "frameworks of 2015 on one card are 4.4 times apart (Torch-7 native to neon)",
    "jcjohnson": "cuDNN 4 to 5.1 on one card are 1.8 times apart",
    "profet": "Kepler has no measured sibling; near the end of its memory cuDNN falls back to a slow algorithm",
    "lambda_tf": "consumer cards without peer access share one bus; TF 2.3 on A100 is a quarter below TF 1.15",
    "ryujaehun": "`nn.DataParallel` at batch 12: what copies the weights is not stated",
    "lamikr": "`nn.DataParallel` at batch 12: what copies the weights is not stated",
    "timm": "the batch is the largest that fits; PyTorch 1.10 to 1.12 gained 20 %",
}

PUBLISHED = """## Published predictors beside it

Figures as their sources state them (opened unless marked), for what they predict; none is on the same rows.

| predictor | test | figure | here |
|---|---|---|---|
| Justus et al. 2018 (github:CDECatapult/ml-performance-prediction) | convolution layers, GPUs known / V100 left out | 10.9 % / 39.6 % mean error | whole VGG, unseen GPU: see above |
| PreNeT, ICPE'25 (github:pacslab/PreNeT) | VGG-16, P100 / best / V100 notebook | 27.65 % / 4.50 % / 13.96 % | unseen VGG, known GPU |
| ResPerfNet (abstract) | LeNet, AlexNet, VGG16 on GTX 1080 Ti | 8.4 % MAPE | unseen VGG, known GPU |
| Habitat, ATC'21 (github:geoffxy/habitat) | profiled on one GPU, predicted on five others, no VGG | 11.8 % | unseen GPU (nothing is profiled) |
| NeuSight, ASPLOS'25 (github:sitar-lab/NeuSight), recomputed from its summary | training, unseen GPUs | 10.4 % (Habitat there: 725.8 %, roofline 31.9 %) | unseen GPU |
| spotDNN (github:spotDNN/spotDNN) | profile of the same net on the same GPU | 0.2-2.5 % | held-out configuration |
| Srifty (abstract) | iteration latency on EC2 | 8 % | several GPUs |
| DNNPerf / PerfSeer (abstracts) | training time, RTX 3090 and others | 7.4 % / 5.1 % | unseen VGG, known GPU |
| plain non-negative least squares over per-layer FLOPs and bytes, per device, on these EC2 rows | unseen VGG / VGG between / configuration (median) | 10.8 % / 6.0 % / 3.0 % | first three lines of the tests |
"""

END = ""
