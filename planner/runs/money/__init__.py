"""What a run may spend, has spent, and what storage keeps billing."""
