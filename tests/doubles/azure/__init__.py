"""A double of Azure Resource Manager: what it remembers, how long it takes, and what it refuses."""
