"""What a run directory says: events, progress, signs of life, and whose words can be believed."""
