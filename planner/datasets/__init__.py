"""A person's data in object storage: packed, uploaded, listed, removed, and what keeping it costs."""
