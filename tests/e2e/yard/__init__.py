"""The yard: containers that play rented machines, with systemd, real cloud-init and Docker, booted from real user data.

A test of an adapter needs three things of it:

- the fixture `yard` (tests/e2e/conftest.py), a `yard.Yard`: `yard.boot(Machine(name=…, cloud=…, user_data=…))` powers a
  machine on and gives a `machine.Running` with `restart()`, `kill()`, `raise_notice()`, `lose_accelerator()`,
  `is_off()`, `run(…)` and `journal()`;
- a `watcher.CloudDouble` around the double of the cloud's API (moto's EC2, a Compute or an ARM double): which
  instances were created with which user data, which were deleted, and a method that is told when one is off;
- `with Watcher(yard, double)`, which keeps the two in step.

`office.Office` is such a double, of a cloud that nobody sells, and `provider.OfficeProvider` its adapter, made of
the product's own parts; `trial.Trial` puts all of it together with a client that is a process of its own.

What a machine sees is its cloud's: the metadata service on 169.254.169.254 (EC2 with IMDSv2 alone and a hop limit
of 1, Google, Azure), by which cloud-init's own data source of that cloud finds its user data; Azure's reads the disc
with ovf-env.xml, since the other half of it needs DHCP. The resolver has the same address, as on Google. Registries are
reached by their real names, over TLS with an authority that the machines trust; object stores by `Yard.relay`, which
can be cut. Nothing leads out of the yard.

Four things are not as on a real machine: the firmware's tables lie in a folder, NVIDIA's programs are doubles which
show what the test says, limits that the kernel refuses to raise are cut in front of runc, and cloud-init's modules for
disks are left out, because in a container they would change the host's.
"""
