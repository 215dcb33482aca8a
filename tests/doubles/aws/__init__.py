"""Amazon Web Services on loopback: moto in a process of its own, its gaps closed, and a layer in front of it."""
