"""How fast a net trains on a device: what was measured, what the model makes of it, and how sure it is."""
