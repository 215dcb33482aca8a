"""The parts of docs/accuracy.md that no fold computes."""

from __future__ import annotations

# ruff: noqa: E501 (rows of a Markdown table)

BEGINNING = """# How right an estimate is

How far estimated images/s are from measured ones that the model was not fitted to. The 80 % interval should hold four of
five measurements; `plan estimate` shows it beside each answer.

<!-- the table of questions -->

Elsewhere on this page: [the rows that are furthest off](#the-worst-rows-and-why), [is the first row the cheapest](#the-decision),
[hours of a whole run](#whole-runs), [several GPUs with PyTorch](#several-gpus-with-pytorch),
[several machines](#several-machines), [memory](#memory), [a processor](#hosts-without-accelerator),
[prices](#prices), [what is missing](#what-is-missing).

Made by `make accuracy`; do not edit. For each fold the constants, variances and corrections are fitted anew without the
rows left out (`scripts/fit/folds.py`). Rows: VGG, training, quality A and B, on a device with known rates. An error is
(predicted - measured) / measured; MAPE is the mean of its absolute value. The interval that a fold is held against comes
from the errors of the other folds. Steps of other nets count for links and libraries (`scripts/fit/pairs.py`) and for versions of
a program (`scripts/fit/others.py`), except those of what is left out.
"""

BY_GPU = """How far the predictions for a GPU are off whose rows were all left out. "Alone": no other one of its architecture was
measured.
"""

# Why the worst rows are off: how the id begins, what the fold's name holds, and the reason; the first that fits.
WHY = (
    ("justus", "", "TensorFlow slim 1.x, batch 1 to 4: 65 ms a step whatever the batch, most of it the framework's"),
    ("soumith", "", "frameworks of 2015 on one card are 4.4 times apart (Torch-7 native to neon)"),
    ("jcjohnson", "", "cuDNN 4 to 5.1 on one card are 1.8 times apart"),
    (
        "profet",
        "K80",
        "Kepler has no measured sibling; near the end of its memory cuDNN falls back to a slow algorithm",
    ),
    ("profet", "", "no other source has images below 224 px, where launches and weights decide"),
    ("lambda_tf", "", "consumer cards without peer access share one bus; TF 2.3 on A100 is a quarter below TF 1.15"),
    ("ryujaehun", "", "`nn.DataParallel` at batch 12: what copies the weights is not stated"),
    ("lamikr", "", "`nn.DataParallel` at batch 12: what copies the weights is not stated"),
    ("timm", "", "the batch is the largest that fits; PyTorch 1.10 to 1.12 gained 20 %"),
)

PUBLISHED = """## Published predictors beside it

Figures as their sources state them, for what they predict; none is on the same rows.

| predictor | test | figure |
|---|---|---|
| Justus et al. 2018 (github:CDECatapult/ml-performance-prediction) | convolution layers, GPUs known / V100 left out | 10.9 % / 39.6 % mean error |
| PreNeT, ICPE'25 (github:pacslab/PreNeT) | VGG-16, P100 / best / V100 notebook | 27.65 % / 4.50 % / 13.96 % |
| Habitat, ATC'21 (github:geoffxy/habitat) | profiled on one GPU, predicted on five others, no VGG | 11.8 % |
| NeuSight, ASPLOS'25 (github:sitar-lab/NeuSight), recomputed from its summary | training, unseen GPUs | 10.4 % (Habitat there: 725.8 %, roofline 31.9 %) |
| spotDNN (github:spotDNN/spotDNN) | profile of the same net on the same GPU | 0.2-2.5 % |
| non-negative least squares per device, on these EC2 rows | unseen VGG / VGG between / configuration (median) | 10.8 % / 6.0 % / 3.0 % |
"""

# What is said of a missed coverage, by test.
COVERAGE = {
    "unseen_gpu": "A card counts once in the width, and 80 % of cards stay within it; of the rows fewer do, since K80, V100 and RTX 3090 have most of them.",
    "unseen_architecture": "The three that are tested are nearer than cards in general.",
}

SHARING = """A step of several devices takes what one takes, plus the bytes of its gradients over the link's speed times the library's
reach, plus a time and a share of the step for each doubling of the devices. A library without rows has plausible constants and the
interval of a library left out. The spread is the root of the mean square of the logarithms of the errors, each fold once.
"""

MOVES = """Each figure with the held-out predictions of a source's rows, less the figure without them. A source of fewer than ten
rows may not move "unseen GPU" by more than 1 point, "unseen source" by more than 2, or the width of `modelled` by more
than 0.10; a test holds it (`scripts/fit/influence.py`).
"""

DECISION = """Is the row that ranks first the cheapest? Either every candidate's throughput is held out (each by a model that never saw that
card), or one candidate is held out and the others are known.
"""

SHARED_STEPS = """Steps of several GPUs by torch's DistributedDataParallel, and of TPU slices, as the shipped model answers without a source,
beside what was published (`python -m scripts.fit.shared_steps`). The gain is that of several GPUs over one in the same program; the
last column has it with links and libraries as they are assumed before any row. What is off is the step on one GPU, not the sharing:
pycls' RegNets have no sibling on a V100. The rows of TPUs are of programs that were tuned for MLPerf (in the fit, as a source's), and of PyTorch/XLA, which
multiplies in 16 bits where its tensors have 32 (in no fit). The width for several GPUs is that for one, and half of what the exchange takes.
"""

SEVERAL_MACHINES = """Seconds of a step, or of one all-reduce, as computed from the rate of one machine, over the published ones
(`planner/throughput/data/scaling.csv`; `python -m scripts.fit.scaling` prints every row). The last columns have constants fitted
without the source. A Pascal card without a name is taken for a P100, and a network of unknown speed for 10 Gbit/s. No
run of the trainer itself on several rented machines was measured: the low end of an estimate hides nothing of the exchange.
"""

MEMORY = """XLA's memory analysis of compiled training steps (`tests/data/xla_memory.csv`, made by `benchmarks/memory_xla.py` with jax 0.10.2 on a
CPU; nothing was run) beside the estimate for a step that XLA plans, in fp32: of each network the step that is furthest
off. The rules were found on these steps, but for three at other sizes (128 and 160 px). Chains (VGG, AlexNet, LeNet) have a fit of
their own that errs upwards. What XLA takes of a GPU at its peak was not measured, and mixed precision cannot be compiled for a CPU.
"""

PEAKS = """PyTorch's peaks of training steps on an H200 (`tests/data/networks_h200.csv`, SGD with momentum, torchvision's networks,
PyTorch 2.11, cuDNN 9.19; fp32, tf32 and 16 bits) beside the estimate. What is kept and when is counted, not fitted; two constants of
cuDNN's scratch space in fp32 are fitted to these peaks. A machine is refused where the least does not fit, and marked `tight`
where what is taken comes within 8 % of what is usable. Of 479 networks of random layers that others trained for a minute each on a
card of 40 GB (`tests/data/random_networks_40gb.csv`, Adam), none that ran is refused; of 120 that ran out of memory 110 are
refused, 4 are `tight`, 6 are taken to fit: the right answer in 97.9 of 100. nvidia-smi shows more: what the allocator keeps for later, 1.7 times
the estimate in the median of these. TensorFlow's peaks were not measured.
"""

HOSTS = """`planner/throughput/host.py` is fitted to steps of 21 cases on two cores of an AMD EPYC (Zen 4) under Keras on TensorFlow
2.21, 2026-11-21. Its interval is a factor of 1.6 for this machine where its processor is of that generation, and 2.5 for a
rented one (both assumed). Other processors of this machine are scaled by clock and instruction set, and their interval is as
wide as the errors over the processors below, to which nothing was fitted; two seconds of training before the first launch, or a
run, replace it.
"""

WHOLE_RUNS = """Published times of whole runs (`planner/throughput/data/totals.csv`), predicted by a model fitted without the run's source. The
interval joins that of the step with the width that the other sources' runs ask for. Runs of quality C have no part in it. "Beside
its steps" is what a run took more than its images over the rate that its source states.
"""

WHOLE_RUNS_ASKED = """### Whole runs of other networks

Published hours of training on ImageNet (`tests/data/whole_runs.csv`), as the shipped model answers without a source, with the
estimate's own start, validations, checkpoints and interval (`python -m scripts.fit.whole_runs`). `ffcv` is a loader and a training loop that were tuned
together; an estimate is of the trainer here.
"""

WHOLE_RUN_PARTS = """What a run takes beside its steps is small where its source tells both: at most 1 %, with a validation of 50,000 images
after each epoch, and a first epoch of 5 to 13 s more than the others. The errors above are errors of the step of several
devices under another source's program, and not time that is lost between steps; no high / low can be below that of such
a step, which alone is above 2.0. What an estimate counts, and from where:

| part | counted as | source |
|---|---|---|
| boot and image | 150 s (120 to 180) and 270 s (180 to 360) with a GPU, 450 s (300 to 600) and 90 s (60 to 135) with a TPU, 60 s (40 to 90) each without either; own pilots replace them | reported by others, with their ranges; a factor of 1.5 to either side where none was reported: `planner/forecast/allowances.py` |
| start and first epoch | 45 s (10 to 60) on a rented machine, 7 s (5 to 18) on this machine's processor | `planner/forecast/allowances.py` `START_SECONDS`, `this_machine.py` `CPU_START_SECONDS` |
| end | 60 s (40 to 90) on a rented machine, 4 s (3 to 5.5) here | `planner/forecast/allowances.py`, `this_machine.py` |
| validation, or tests between epochs | each image a third of a training step; between epochs as often as the trainer does | `EVALUATION_SPEEDUP`; the four logs above have a quarter |
| input | the slower of decoding, copying and computing, with the ends of both (a vCPU is 0.40 to 0.65 of a measured core); files that fit memory are decoded in the first epoch only | `planner/forecast/feeding.py`, `benchmarks/feeding.py` of 2026-11-21 |
| checkpoints | one after each interval, at a disk's speed | `planner/forecast/spot.py` `checkpoint_seconds` |
| restarts | on spot, by the placement's rate of interruption; none on demand, where nobody publishes one (assumed) | `planner/forecast/spot.py` `spot_rate` |
"""

PRICES = """The interval of a cost holds that of the price. `python -m scripts.price_error` plans spot prices by the rules of the catalog with what is
fitted to other regions, or to earlier days, and puts beside them what was read where and when nothing was fitted:
"""

PRICES_READ = """- EC2: the lowest zone of 377 machines with GPUs in 19 regions in the first half of 2026 (skypilot-catalog v9@2c3d7ea7), and the spot pricing page of
  2026-08-10 (spotinfo@69bcec67) in four regions. The age is counted from the first day that the file of the zones can have.
- The family's share is the 75th percentile, so that most bills are below it. A region's own price is used where there is one.
- Low prices rise most: of those below a fifth of on demand, the middle one was 1.67 times as high in August.
- Not held against anything: Azure's spot prices (shares of other vendors), EC2 without a GPU, TPUs.
"""

SHORTFALLS = """- A step of several devices repeats itself within 13 % only, and the model is nearer to the next one (8 %) than the
  measurement itself; what widens `scaled` are a precision or a framework that was never seen on the card.
- No step that MirroredStrategy shared is in the table, and the trainer uses it: predictions for several devices have the interval
  of a library left out. MXNet's store on eight V100 is predicted 61 % too fast. PCIe through the host: 35 % off.
- The decisions that go wrong take a K80 for a V100, where T4 was not timed: Kepler has no sibling, and is predicted
  twice as fast as it is at 32 and 64 px. Both are retired.
- With an unseen source the intervals are wide (a factor of 1.5), since one card under another framework is 1.7 times as fast.
- How far a constant or a variance may be from the plausible, how far a correction carries over batches, and which kinds count by
  fold were chosen once, with these figures in view. The tests are kinder for that than unknown rows would be.
- `nn.DataParallel` without one row of that machine is a guess: how weights travel is not stated.
- Questions for the trainer keep some orders whatever was measured ([ADR 7](adr/0007-throughput-model.md)); the tests above
  are of rows as their sources ran them, without the orders between cards and precisions.
- No VGG row exists of Hopper, of Ada in the data centre, of a TPU or across machines; those are arithmetic alone.
"""
