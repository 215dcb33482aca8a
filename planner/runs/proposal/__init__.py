"""Where a job may go: the placements in order, with prices, shown before anything is created; and the consent to it."""
