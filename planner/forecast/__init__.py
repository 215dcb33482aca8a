"""A job and the offers become a ranked plan.

One estimate, step by step, with the figure that each step adds. The example is the first row of `plan estimate
examples/vgg16-cifar10.yaml` on 2026-11-23: VGG16 on CIFAR-10, 90 epochs, batch 128, on one TPU v5e at its spot price.
`plan estimate examples/vgg16-cifar10.yaml --explain 1` prints the same figures with their sources. Everything here is
pure, except `planning/build_plan.py`, which reads the catalog and the tables, and `planning/check.py`, which asks a
provider.

1. `planning/build_plan.py` `make_plan` opens the catalog and the tables. `forecast/choose.py` `choose` goes through
   the offers and rejects those that cannot do the job, each with its `forecast/plan.py` `Reason`. The figures from
   here on are for one offer: TPU v5e at Google Cloud.
2. Images: `forecast/estimate.py` `trained_images` counts whole batches. 50,000 images an epoch are 390 batches of
   128; times 90 epochs: 4,492,800 images.
3. Memory: `workloads/memory.py` `footprint` adds weights, gradients, optimizer, activations, and workspace: 0.4 GiB
   of the 15.8 GiB that XLA can use. An offer whose devices have less is rejected.
4. Throughput: `throughput/predict.py` `Predictor` gives 8,877 images/s, with an 80 % interval from 5,171 to 15,239.
   The basis is `modelled`: no measurement of a TPU v5e is in the table.
5. Feeding: `forecast/feeding.py` `feed_images_per_second` computes that 24 vCPU can supply 975,039 images/s
   (780,031 to 1,267,551). `pace` takes the slower of the two: the throughput stays 8,877 images/s.
6. Time: `forecast/estimate.py` `rented_time` adds the set-up (450 s to boot, 90 s for the image, 45 s for the
   framework, 2 s for the data: 9m 47s), the training (4,492,800 images and the tests between epochs, of 450,000 images
   at a third of a step, at 8,877 images/s: 8m 43s) and the end (60 s): 19m 30s. `forecast/whole_run.py` `widened` makes
   the interval wider than that of the step, and `forecast/times.py` `RunTime` joins it with the widths of set-up and
   end: 15m to 28m.
7. Checkpoints and interruptions: `forecast/spot.py` `spot_rate` has one interruption in 15 h for TPUs at spot prices,
   from measurements of 2022. `forecast/interruption.py` `expected_run` turns that into 0.022 expected interruptions,
   which add 17 s: 19m 47s, of which 19m 43s are billed.
8. Cost: `pricing/planning.py` `planning_micro` makes 0.312 USD/h of the 0.298 that were listed 145 days before.
   `pricing/money.py` `Billing` turns the billed time into billed seconds; boot time of this TPU is free, so that 733
   s at 0.312214 USD/h cost 0.0636 USD. `forecast/side_costs.py` `SideCosts` adds disk (0.0045), address (0.0016),
   transfer (0.0072) and traffic between regions (0.00): 0.0769 USD. The ends of the time's interval and of the
   price's give 0.0536 and 0.15 USD.
9. Obtainability: where something is known of a placement (a vendor's score, own refusals, a dated note),
   `forecast/at_placement.py` adds what asking there takes (`forecast/obtainability.py` `expected_search`). Of this
   row nothing is known, which adds nothing. `planning/scores.py` `with_scores` asks vendors, with `--check` alone.
10. `forecast/choose.py` orders the candidates by the job's objective, `forecast/advice.py` `advice` adds what would
   make the job cheaper or faster, and `planning/this_machine.py` `quote_this_machine` estimates the same job on this
   computer: from its own runs, else from two seconds of training (`planning/calibration.py`), else from the model, and
   as other programs leave its processors (`planning/load.py`). The result is one `forecast/plan.py` `Plan`, which
   `planner/report/` shows.
"""
