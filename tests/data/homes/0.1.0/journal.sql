BEGIN TRANSACTION;
CREATE TABLE attempts (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    number INTEGER NOT NULL,
    client TEXT,
    request_json TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "attempts" VALUES('261129-0408c17e',1,'fd502c17444f86c5','{}');
INSERT INTO "attempts" VALUES('261129-83d63c5b',1,'fd502c17444f86c5','{}');
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
INSERT INTO "events" VALUES(1,'261129-0408c17e','2026-11-29T05:14:44.255778+00:00','planned','');
INSERT INTO "events" VALUES(2,'261129-0408c17e','2026-11-29T05:14:44.255778+00:00','asking','attempt 1');
INSERT INTO "events" VALUES(3,'261129-0408c17e','2026-11-29T05:14:44.255778+00:00','booting','');
INSERT INTO "events" VALUES(4,'261129-0408c17e','2026-11-29T05:21:54.255778+00:00','running','');
INSERT INTO "events" VALUES(5,'261129-0408c17e','2026-11-29T05:23:54.255778+00:00','collecting','');
INSERT INTO "events" VALUES(6,'261129-0408c17e','2026-11-29T05:23:54.255778+00:00','tearing_down','');
INSERT INTO "events" VALUES(7,'261129-0408c17e','2026-11-29T05:23:59.005778+00:00','done','');
INSERT INTO "events" VALUES(8,'261129-0408c17e','2026-11-29T05:23:59.005778+00:00','receipt','');
INSERT INTO "events" VALUES(9,'261129-83d63c5b','2026-11-29T05:23:59.005778+00:00','planned','');
INSERT INTO "events" VALUES(10,'261129-83d63c5b','2026-11-29T05:23:59.005778+00:00','asking','attempt 1');
INSERT INTO "events" VALUES(11,'261129-83d63c5b','2026-11-29T05:23:59.005778+00:00','booting','');
INSERT INTO "events" VALUES(12,'261129-83d63c5b','2026-11-29T05:23:59.005778+00:00','stop asked','');
INSERT INTO "events" VALUES(13,'261129-83d63c5b','2026-11-29T05:24:09.005778+00:00','told to stop','attempt 1');
INSERT INTO "events" VALUES(14,'261129-83d63c5b','2026-11-29T05:25:09.005778+00:00','told to stop','attempt 1');
INSERT INTO "events" VALUES(15,'261129-83d63c5b','2026-11-29T05:26:09.005778+00:00','told to stop','attempt 1');
INSERT INTO "events" VALUES(16,'261129-83d63c5b','2026-11-29T05:27:09.005778+00:00','told to stop','attempt 1');
INSERT INTO "events" VALUES(17,'261129-83d63c5b','2026-11-29T05:28:09.005778+00:00','told to stop','attempt 1');
INSERT INTO "events" VALUES(18,'261129-83d63c5b','2026-11-29T05:29:09.005778+00:00','told to stop','attempt 1');
INSERT INTO "events" VALUES(19,'261129-83d63c5b','2026-11-29T05:30:09.005778+00:00','told to stop','attempt 1');
INSERT INTO "events" VALUES(20,'261129-83d63c5b','2026-11-29T05:30:59.005778+00:00','running','');
INSERT INTO "events" VALUES(21,'261129-83d63c5b','2026-11-29T05:31:09.005778+00:00','told to stop','attempt 1');
INSERT INTO "events" VALUES(22,'261129-83d63c5b','2026-11-29T05:31:59.005778+00:00','tearing_down','stopped, with a checkpoint');
INSERT INTO "events" VALUES(23,'261129-83d63c5b','2026-11-29T05:32:03.755778+00:00','tearing_down','nothing bills');
INSERT INTO "events" VALUES(24,'261129-83d63c5b','2026-11-29T05:32:03.755778+00:00','done','stopped. It saved no checkpoint');
INSERT INTO "events" VALUES(25,'261129-83d63c5b','2026-11-29T05:32:03.755778+00:00','receipt','');
CREATE TABLE refusals (
    id INTEGER PRIMARY KEY,
    until TEXT NOT NULL,
    refusal_json TEXT NOT NULL
) STRICT;
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    run_json TEXT NOT NULL,
    targets ANY NOT NULL,
    job_json TEXT NOT NULL,
    estimate_json TEXT NOT NULL,
    receipt_json TEXT,
    job_digest ANY AS (json_extract(CASE WHEN json_valid(run_json) THEN run_json END, '$.job_digest')),
    provider ANY AS (json_extract(CASE WHEN json_valid(run_json) THEN run_json END, '$.provider')),
    phase ANY AS (json_extract(CASE WHEN json_valid(run_json) THEN run_json END, '$.phase')),
    created_at ANY AS (replace(coalesce(json_extract(CASE WHEN json_valid(run_json) THEN run_json END, '$.launched_at'), json_extract(CASE WHEN json_valid(run_json) THEN run_json END, '$.created_at')), 'Z', '+00:00')),
    model_folder ANY AS (json_extract(CASE WHEN json_valid(run_json) THEN run_json END, '$.model_folder')),
    unverified ANY AS (json_extract(CASE WHEN json_valid(run_json) THEN run_json END, '$.unverified')),
    owes_receipt ANY AS (receipt_json IS NULL OR json_extract(CASE WHEN json_valid(receipt_json) THEN receipt_json END, '$.attempts') < json_array_length(CASE WHEN json_valid(run_json) THEN run_json END, '$.attempts'))
) STRICT;
INSERT INTO "runs" VALUES('261129-0408c17e','{"run_id":"261129-0408c17e","job_name":"finished","job_digest":"0ae1139f0c2c21fa","provider":"sim","phase":"done","created_at":"2026-11-29T05:14:44.255778Z","deadline":"2026-11-29T13:14:44.255778Z","model_folder":"/home/ada/finished-261129-0408c17e","budget_usd":"5","on_slow":"ask","project":"thesis","attempts":[{"number":1,"target":{"offer":{"provider":"sim","region":"sim-east","instance_type":"t4.one","device":"T4","device_count":1,"vcpus":4,"memory_gib":16.0,"market":"spot","usd_per_hour":"0.160000","planning_usd_per_hour":"0.160000","price_grade":"estimated","price_as_of":"2026-11-21","price_source":"simulated","zones":["sim-east-a","sim-east-b","sim-east-c"],"family":"t4","cpu_architecture":"x86_64","device_fraction":"1","device_memory_gib":16.0,"hosts":1,"on_demand_usd_per_hour":"0.500000","host_usd_per_hour":null,"device_usd_per_hour":null,"price_as_of_text":"","interruption_bucket":null,"lifecycle":{"state":"active","date":null,"successor":null},"billing":{"increment_seconds":1,"minimum_seconds":60},"note":"simulated: nothing is rented and nothing is billed","availability":[null,null],"spot_mean_usd_per_hour":null,"spot_low_usd_per_hour":null,"spot_high_usd_per_hour":null,"own_rate":"","planned_as":"listed","price_spread":[1.0,1.0],"own_usd_per_hour":null,"own_hours":null},"zone":"sim-east-a","seconds":602.626342,"overhead_seconds":466.704981,"steady_seconds":567.766514,"disk_gb":"100.9","fixed_usd":"0.015125","disk_usd_per_hour":"0.01382191780821917808219178082","address_usd_per_hour":"0.005","traffic_usd":"0.000","download_usd":"0.01215","images_per_second":2593.8307698427066,"images_per_second_low":2115.2903881802317,"low_seconds":490.128212,"high_seconds":1252.059687,"usd":"0.040413","low_usd":"0.035247","high_usd":"0.04548","basis":"scaled","machines":1},"asked_at":"2026-11-29T05:14:44.255778Z","sent_at":"2026-11-29T05:14:44.255778Z","deadline":"2026-11-29T13:14:44.255778Z","tries":0,"cleared":true,"queued":false,"client":"fd502c17444f86c5","found":false,"results_at_home":true,"ref":{"provider":"sim","region":"sim-east","id":"i-74d42e0b072bfecb"},"exit_code":0,"end":"done","reason":"done","ended_at":"2026-11-29T05:23:01.264201Z","gone_at":"2026-11-29T05:23:59.005778Z","gone_after":"2026-11-29T05:23:56.755778Z"}],"deadline_given":true,"checkpoint_seconds":600.0,"total_steps":780,"until_steady":false,"try_settings":false,"measures_first":false,"taken_over":false,"launched_at":"2026-11-29T05:14:44.370356Z","has_results_settled":true,"results_given_up":false,"outcome":"succeeded"}','[]','{
 "accumulate": 1,
 "checkpoint_every": "600s",
 "constraints": {
  "budget_usd": 5.0,
  "deadline": "28800s",
  "devices": [],
  "markets": [
   "on_demand",
   "spot"
  ],
  "providers": [],
  "regions": []
 },
 "container": null,
 "data": {
  "channels": null,
  "images": null,
  "name": "cifar10",
  "path": null,
  "size_bytes": null,
  "url": null
 },
 "epochs": 2,
 "global_batch_size": 128,
 "model": {
  "batch_norm": false,
  "classes": null,
  "dense": null,
  "dropout": null,
  "image_size": null,
  "image_size_multiplier": 1.0,
  "layers": null,
  "preset": "vgg16"
 },
 "name": "finished",
 "objective": "cost",
 "on_slow": "ask",
 "optimizer": {
  "learning_rate": 0.01,
  "momentum": 0.9,
  "name": "sgd",
  "weight_decay": 0.0
 },
 "precision": "fp32",
 "project": "thesis",
 "secrets": {},
 "seed": 0,
 "xla": false
}','{"seconds": 602.626342, "low_seconds": 490.128212, "high_seconds": 1252.059687, "usd": 0.040413, "images_per_second": 2593.8307698427066, "basis": "scaled"}','{"run_id": "261129-0408c17e", "job_name": "finished", "outcome": "succeeded", "message": null, "attempts": 1, "interruptions": 0, "lost_steps": 0, "estimated_seconds": 602.626342, "estimated_low_seconds": 490.128212, "estimated_high_seconds": 1252.059687, "actual_seconds": 554.75, "estimated_usd": 0.040413, "actual_usd": 0.03718504566210046, "estimated_images_per_second": 2593.8307698427066, "basis": "scaled", "actual_images_per_second": 2593.83, "steps": 780, "total_steps": 780, "accuracy": null, "hold_out_images": 10000, "framework": "simulated 1", "device": "1 x T4", "phase_seconds": {"data": 3.0, "import": 8.0, "build": 2.0, "compile": 12.0, "train": 38.491, "evaluate": 5.0, "save": 3.0}, "model_folder": "/home/ada/finished-261129-0408c17e", "stored_bytes": null, "stored_usd_per_month": null, "data_stored_bytes": null, "data_stored_usd_per_month": null, "placements": [{"attempt": 1, "where": "sim t4.one (spot) in sim-east-a", "steps": 780, "actual_usd": 0.022133333333333335, "estimated_seconds": 602.626342, "estimated_low_seconds": 490.128212, "estimated_high_seconds": 1252.059687, "estimated_usd": 0.040413, "estimated_images_per_second": 2593.8307698427066}], "top5": null, "most_frequent": null, "trained_on": null, "training_accuracy": null, "training_tested_accuracy": null, "best_epoch": null, "early_end_epoch": null, "list_usd": null, "own_rate": null, "credit_usd": null, "usd_by_resource": {"compute": 0.022133, "disk": 0.002131, "address": 0.000771, "transfer": 0.01215}, "at_most": false, "parts_at_most": [], "project": "thesis", "billed": {}, "billed_currency": "", "billed_whole": false, "simulated": true, "sweep": "", "figures": {}, "tries": [], "kept": null}');
INSERT INTO "runs" VALUES('261129-83d63c5b','{"run_id":"261129-83d63c5b","job_name":"stopped","job_digest":"829411bcc28e09b3","provider":"sim","phase":"done","created_at":"2026-11-29T05:23:59.005778Z","deadline":"2026-11-29T13:23:59.005778Z","model_folder":"/home/ada/stopped-261129-83d63c5b","budget_usd":"5","on_slow":"ask","project":"thesis","attempts":[{"number":1,"target":{"offer":{"provider":"sim","region":"sim-east","instance_type":"t4.one","device":"T4","device_count":1,"vcpus":4,"memory_gib":16.0,"market":"spot","usd_per_hour":"0.160000","planning_usd_per_hour":"0.160000","price_grade":"estimated","price_as_of":"2026-11-21","price_source":"simulated","zones":["sim-east-a","sim-east-b","sim-east-c"],"family":"t4","cpu_architecture":"x86_64","device_fraction":"1","device_memory_gib":16.0,"hosts":1,"on_demand_usd_per_hour":"0.500000","host_usd_per_hour":null,"device_usd_per_hour":null,"price_as_of_text":"","interruption_bucket":null,"lifecycle":{"state":"active","date":null,"successor":null},"billing":{"increment_seconds":1,"minimum_seconds":60},"note":"simulated: nothing is rented and nothing is billed","availability":[null,null],"spot_mean_usd_per_hour":null,"spot_low_usd_per_hour":null,"spot_high_usd_per_hour":null,"own_rate":"","planned_as":"listed","price_spread":[1.0,1.0],"own_usd_per_hour":null,"own_hours":null},"zone":"sim-east-a","seconds":622.058343,"overhead_seconds":466.704981,"steady_seconds":587.01218,"disk_gb":"100.9","fixed_usd":"0.015224","disk_usd_per_hour":"0.01382191780821917808219178082","address_usd_per_hour":"0.005","traffic_usd":"0.000","download_usd":"0.01215","images_per_second":2593.8307698427066,"images_per_second_low":2115.2903881802317,"low_seconds":507.412408,"high_seconds":1273.472908,"usd":"0.041357","low_usd":"0.036192","high_usd":"0.046523","basis":"scaled","machines":1},"asked_at":"2026-11-29T05:23:59.005778Z","sent_at":"2026-11-29T05:23:59.005778Z","deadline":"2026-11-29T13:23:59.005778Z","tries":0,"cleared":true,"queued":false,"client":"fd502c17444f86c5","found":false,"results_at_home":false,"ref":{"provider":"sim","region":"sim-east","id":"i-ff8180b6ddd366cf"},"exit_code":75,"end":"stopped","reason":"stopped, with a checkpoint","ended_at":"2026-11-29T05:30:53.624251Z","gone_at":"2026-11-29T05:32:03.755778Z","gone_after":"2026-11-29T05:32:01.505778Z","step":0}],"deadline_given":true,"checkpoint_seconds":600.0,"total_steps":1170,"until_steady":false,"try_settings":false,"measures_first":false,"taken_over":false,"launched_at":"2026-11-29T05:14:47.948701Z","has_results_settled":true,"results_given_up":false,"stop_asked":"2026-11-29T05:23:59.005778+00:00","outcome":"stopped","message":"stopped. It saved no checkpoint"}','[]','{
 "accumulate": 1,
 "checkpoint_every": "600s",
 "constraints": {
  "budget_usd": 5.0,
  "deadline": "28800s",
  "devices": [],
  "markets": [
   "on_demand",
   "spot"
  ],
  "providers": [],
  "regions": []
 },
 "container": null,
 "data": {
  "channels": null,
  "images": null,
  "name": "cifar10",
  "path": null,
  "size_bytes": null,
  "url": null
 },
 "epochs": 3,
 "global_batch_size": 128,
 "model": {
  "batch_norm": false,
  "classes": null,
  "dense": null,
  "dropout": null,
  "image_size": null,
  "image_size_multiplier": 1.0,
  "layers": null,
  "preset": "vgg16"
 },
 "name": "stopped",
 "objective": "cost",
 "on_slow": "ask",
 "optimizer": {
  "learning_rate": 0.01,
  "momentum": 0.9,
  "name": "sgd",
  "weight_decay": 0.0
 },
 "precision": "fp32",
 "project": "thesis",
 "secrets": {},
 "seed": 0,
 "xla": false
}','{"seconds": 622.058343, "low_seconds": 507.412408, "high_seconds": 1273.472908, "usd": 0.041357, "images_per_second": 2593.8307698427066, "basis": "scaled"}','{"run_id": "261129-83d63c5b", "job_name": "stopped", "outcome": "stopped", "message": "stopped. It saved no checkpoint", "attempts": 1, "interruptions": 0, "lost_steps": 0, "estimated_seconds": 622.058343, "estimated_low_seconds": 507.412408, "estimated_high_seconds": 1273.472908, "actual_seconds": 484.75, "estimated_usd": 0.041357, "actual_usd": 0.02098017503805175, "estimated_images_per_second": 2593.8307698427066, "basis": "scaled", "actual_images_per_second": 2593.83, "steps": 0, "total_steps": null, "accuracy": null, "hold_out_images": 10000, "framework": null, "device": null, "phase_seconds": {}, "model_folder": null, "stored_bytes": null, "stored_usd_per_month": null, "data_stored_bytes": null, "data_stored_usd_per_month": null, "placements": [{"attempt": 1, "where": "sim t4.one (spot) in sim-east-a", "steps": 0, "actual_usd": 0.018444444444444444, "estimated_seconds": 622.058343, "estimated_low_seconds": 507.412408, "estimated_high_seconds": 1273.472908, "estimated_usd": 0.041357, "estimated_images_per_second": 2593.8307698427066}], "top5": null, "most_frequent": null, "trained_on": null, "training_accuracy": null, "training_tested_accuracy": null, "best_epoch": null, "early_end_epoch": null, "list_usd": null, "own_rate": null, "credit_usd": null, "usd_by_resource": {"compute": 0.018444, "disk": 0.001862, "address": 0.000674, "transfer": 0.0}, "at_most": false, "parts_at_most": [], "project": "thesis", "billed": {}, "billed_currency": "", "billed_whole": false, "simulated": true, "sweep": "", "figures": {}, "tries": [], "kept": null}');
CREATE INDEX runs_by_job ON runs (job_digest, created_at);
CREATE INDEX runs_by_provider ON runs (provider);
CREATE INDEX runs_live ON runs (created_at) WHERE phase IS NOT 'done' OR owes_receipt;
CREATE INDEX runs_by_age ON runs (created_at) WHERE model_folder IS NOT '';
CREATE INDEX runs_unverified ON runs (run_id) WHERE unverified IS NOT NULL;
CREATE INDEX events_by_run ON events (run_id, id);
COMMIT;
PRAGMA user_version = 10;
