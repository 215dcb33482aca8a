"""One run, from the proposal to the receipt.

This page follows one launch, call by call, from the typed command to the receipt. Each step names its file below
`planner/`. What follows "disk:" is in the journal when the step is over. The journal is written before each call that
creates or ends something, so that the next command can continue after one that was killed at any point.

 1. `cli/commands/launch.py` `command` reads the job file and the options (`cli/options.py`) and creates providers,
    clock, journal and `Runner` (`api/build.py`). `api/launching.py` does what follows.
 2. `runs/proposal/make_proposal.py` `make_proposal` decides where the job may go. `planning/build_plan.py`
    `make_plan` ranks the offers; `planning/quotas.py` `within_quotas` leaves out what the account cannot rent;
    `planning/check.py` `judge` asks whether the account may launch at the first placement;
    `runs/proposal/live_prices.py`
    `refined` reads live prices. `runs/proposal/proposal.py` `rented` makes a `Proposal` of it: the placements in order,
    as `runs/targets.py` `Target`.
 3. `datasets/transfer.py` `plan_transfer` computes what sending the job's data takes; `send` sends it after the
    question.
 4. `api/living_run.py` `look` asks what to do if another run of the same job is live. `api/launching.py` `begin` shows
    the proposal, the limits and the parts that others made (`runs/proposal/consent.py`), and asks.
 5. `runs/runner.py` `prepare` does the preflight; `record` makes the run. disk: the run PLANNED, its job and
    estimate, within the month's budget (`runs/money/spending.py` `launching`) and under its lock
    (`runs/journal/locks.py` `keep`).
 6. `runs/runner.py` `follow` gives the run to `runs/execution/executor.py` `follow`, which repeats until the run is
    done: read the run from the journal, look (`runs/execution/observe.py` `look`), choose the next action
    (`runs/decision/next_action.py` `next_action`, pure), carry it out. The executor has three helpers: `Observer`
    (`runs/execution/observe.py`) reads the provider and the run directory, `Recorder` (`runs/execution/recorder.py`)
    writes the journal and passes messages on, `Finisher` (`runs/execution/end.py`) collects and deletes.
 7. The first action is a launch. `runs/execution/create.py` `record` builds the request, lets the provider look up
    what it leaves open, and gets the calls that will be sent. disk: the run LAUNCHING, the attempt, every call as it
    will be sent. `send` reads the request from the journal and sends it: `providers/base.py` `launch`. A placement
    without room is remembered, and the next one is asked. disk: the run BOOTING with the instance's id; or
    INTERRUPTED, and the refusal.
 8. While it trains, each look reads the instance, its run directory (`runs/directory/run_directory.py` `Watcher`,
    which tells events to the command) and its signs of life (`runs/directory/signs.py` `newest_sign`). disk: RUNNING,
    once it trains. An end before the last step is an interruption: the run goes on at step 7 from its newest
    checkpoint.
 9. When it is trained, `runs/execution/end.py` `collect` fetches the model (`runs/execution/collect.py` `collect`)
    and compares it with what the machine vouches for (`runs/directory/proofs.py` `Vouched`). disk: COLLECTING, before
    the first file.
10. `runs/execution/end.py` `end` keeps the output, and `runs/execution/teardown.py` `clear` deletes all that the run
    created and looks until every placement has confirmed that nothing is left. disk: TEARING_DOWN before, DONE after.
11. `runs/receipt/receipt_writer.py` `write` makes the receipt (`runs/receipt/receipt.py` `write_receipt`). disk: the
    receipt, and what this machine has measured. `cli/run_end.py` `follow` prints it and ends with the run's exit
    code.

A pilot (`runs/pilot.py`, proposed by `runs/proposal/pilots.py`) is steps 5 to 11 of a run that measures: it has no
folder for a model, so that step 9 falls away, and step 11 keeps what it measured of a rented machine. A run that
follows pilots measures its own machine at step 8 (`runs/decision/stay.py` `compare`): it stays, or goes back to step 7
for a cheaper placement. disk: the speed, the wish to leave and the new order of placements, before the machine is told.

`plan status`, `stop` and `attach` start at step 6: `runs/runner.py` `settle`, `stop`, `follow`. Without a journal,
`runs/cleanup/stop_by_label.py` and `runs/cleanup/cleanup.py` find and end what runs have made by its labels.
"""
