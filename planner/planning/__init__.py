"""Whatever is read to make a plan: the catalog, this computer, the account, the cluster.

`build_plan.make_plan` is its door.
"""
